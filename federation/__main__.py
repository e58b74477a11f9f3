"""``python -m federation VERB FILE``: keys, the server, a client, what a client has spent."""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.errors import EpsilonError
from engine.settings import Settings
from federation import configuration
from federation.configuration import Agreement
from federation.ledger import Ledger

VERBS = {
    "server-keys": "make the server's certificate, which its clients are given",
    "client-keys": "make a client's key, whose public half the server is given",
    "server": "serve a run, from its first round to its last",
    "client": "take part, until it is ended",
    "ledger": "what this client has spent on its own sentences",
    "split": "write each client's sentences of the corpus, as a simulation splits them, to a file of its own",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments ask for; returns the exit code, 2 for what cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m federation", description="A real federation.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, title in VERBS.items():
        verbs.add_parser(name, help=title).add_argument("file", type=Path, help="what is agreed, in TOML")
    chosen = parser.parse_args(arguments)
    try:
        return _do(chosen.verb, configuration.read(chosen.file), chosen.file)
    except EpsilonError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2


def _do(verb: str, agreement: Agreement, file: Path) -> int:
    if verb in ("server-keys", "client-keys"):
        from federation.keys import make_client_keys, make_server_keys

        if verb == "server-keys":
            make_server_keys(agreement.server, agreement.address.rpartition(":")[0])
        else:
            make_client_keys(agreement.client)
        return 0
    if verb == "ledger":
        return _ledger(agreement)
    if verb == "split":
        from federation.client import split

        for number, sentences in enumerate(split(agreement.config, Settings.from_environment()), 1):
            text = "\n".join(
                "".join(f"{token}\t{tag}\n" for token, tag in zip(*both, strict=True)) for both in sentences
            )
            file.with_name(f"client-{number}.conll").write_text(text, encoding="utf-8")
        return 0
    from federation.flower import processes

    return (processes.run_server if verb == "server" else processes.run_client)(agreement, file)


def _ledger(agreement: Agreement) -> int:
    ledger = Ledger(agreement.client)
    for entry in ledger.entries():
        print(f"{entry.at}  {entry.name}  round {entry.round}  ε = {_shown(entry.epsilon)} at δ = {entry.delta:g}")  # noqa: T201
    unit = agreement.config.privacy.kind.protected
    epsilon, delta = ledger.total(unit)
    print(f"All runs together: ε = {_shown(epsilon)} at δ = {delta:g}, for {unit}")  # noqa: T201
    return 0


def _shown(epsilon: float) -> str:
    """Rounded up: what is shown is never less than what was spent."""
    return "∞" if math.isinf(epsilon) else f"{math.ceil(epsilon * 1000) / 1000:.3f}"


if __name__ == "__main__":
    sys.exit(main())
