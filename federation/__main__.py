"""Command line of a real federation: ``python -m federation VERB FILE``."""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from engine import file_access
from engine.errors import EpsilonError
from engine.settings import Settings
from federation import configuration
from federation.configuration import Agreement
from federation.ledger import Ledger

VERBS = {
    "server-keys": "create the server's TLS certificate; copy it to every client",
    "client-keys": "create a client's key pair; copy its public key to the server",
    "server": "run the server (SuperLink) for all rounds of a run",
    "client": "run a client (SuperNode) until interrupted",
    "ledger": "print the privacy cost (ε) of this client's rounds",
    "forget": "destroy the sealed measurements of all runs of this client; its ledger stays",
    "split": "write each client's shard of the corpus, as in a simulated federation, to a CoNLL file",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code, 2 for an error."""
    parser = argparse.ArgumentParser(prog="python -m federation", description="Run a real federation with Flower.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, title in VERBS.items():
        verbs.add_parser(name, help=title).add_argument("file", type=Path, help="agreement of the federation, in TOML")
    options = parser.parse_args(arguments)
    file_access.protect_process()
    try:
        agreement = configuration.read(options.file)
        for folder in (Settings.from_environment().home, agreement.server, agreement.client):
            if folder.resolve() != options.file.resolve().parent and (problem := file_access.correct(folder.resolve())):
                print(problem, file=sys.stderr)  # noqa: T201
        return _run(options.verb, agreement, options.file)
    except EpsilonError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2


def _run(verb: str, agreement: Agreement, file: Path) -> int:
    if verb in ("server-keys", "client-keys"):
        from federation.keys import make_client_keys, make_server_keys

        if verb == "server-keys":
            make_server_keys(agreement.server, agreement.address.rpartition(":")[0])
        else:
            make_client_keys(agreement.client)
        return 0
    if verb == "ledger":
        return _ledger(agreement)
    if verb == "forget":
        from federation import check_files

        print(f"Destroyed the measurements of {len(check_files.destroy_all(agreement.client))} runs.")  # noqa: T201
        return 0
    if verb == "split":
        from federation.client import split

        for number, sentences in enumerate(split(agreement.config, Settings.from_environment()), 1):
            text = "\n".join(
                "".join(f"{token}\t{tag}\n" for token, tag in zip(*sentence, strict=True)) for sentence in sentences
            )
            file.with_name(f"client-{number}.conll").write_text(text, encoding="utf-8")
        return 0
    from federation.flower import processes

    return (processes.run_server if verb == "server" else processes.run_client)(agreement, file)


def _ledger(agreement: Agreement) -> int:
    ledger = Ledger(agreement.client)
    for entry in ledger.entries():
        print(f"{entry.at}  {entry.name}  round {entry.round}  ε = {_rounded_up(entry.epsilon)} at δ = {entry.delta:g}")  # noqa: T201
    unit = agreement.config.privacy.kind.protected
    epsilon, delta = ledger.total(unit)
    total = f"ε = {_rounded_up(epsilon)} at δ = {delta:g}"
    adjacency = f" (adjacency: {ledger.adjacency()})" if ledger.entries() else ""
    print(f"All runs together: {total}, for {unit}{adjacency}")  # noqa: T201
    return 0


def _rounded_up(epsilon: float) -> str:
    """Return ε to three digits, rounded up, so that it is never below the ε spent."""
    return "∞" if math.isinf(epsilon) else f"{math.ceil(epsilon * 1000) / 1000:.3f}"


if __name__ == "__main__":
    sys.exit(main())
