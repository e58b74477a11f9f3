"""What the records of a run rest on before anything is computed: defaults, first draws of every random stream, first
weights, prices. Kept in ``fingerprint.json``, one part for each of the engine's two versions.

``python -m tests.engine.fingerprint`` says what is different today, and with ``--write`` keeps it. It refuses where
something that was there is another now while the engine's version is the same: a run of that version would be taken for
what it is not.
"""

import argparse
import ast
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from engine import PLAIN_VERSION, PRIVATE_VERSION
from engine.config import PARTITIONS, FederationConfig, SimulationConfig, TaggerConfig, run_key, with_noise
from engine.corpus.sentence_metadata import Layout
from engine.federated.partition import chosen_sentences, partition
from engine.federated.plan import federated_plan
from engine.privacy import accounting
from engine.privacy.mechanisms import add_gaussian_noise, poisson_sample, shuffled_batch
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds
from engine.settings import REPOSITORY
from engine.taggers import KINDS, build

FILE = Path(__file__).with_suffix(".json")
VERSIONS = {"plain": PLAIN_VERSION, "private": PRIVATE_VERSION}
NAMES = {"plain": "PLAIN_VERSION", "private": "PRIVATE_VERSION"}
PRIVATE_ONLY = ("'noise'", "'server noise'", "f'ties of", "'looks'", "'groups'", "f'secure sum")
"""How the arguments of streams begin that only private runs draw from."""
SENTENCES, DIMENSIONS, TAGS, CLIENTS = 60, 12, 5, 3
DIGITS = 7
"""Significant ones that are kept; the last of a float32 may differ from one processor to the next."""


def today() -> dict[str, Any]:
    """The fingerprint of this code: the engine's version and what it stands for, without noise and with it."""
    usual = SimulationConfig()
    shared = {
        "identity of the default run": run_key(usual, "checksum of a corpus", "version"),
        "first draws": {"seeds": drawn(Seeds(0)), "shuffled batch": shuffled_batch(Seeds(0), 60, 8, 9).tolist()},
        "who holds what": {kind: held(kind) for kind in PARTITIONS},
        "who takes part, and pieces": visits(0.0),
        "a share of the data": chosen_sentences(SENTENCES, 0.1, Seeds(0)).tolist(),
        "first weights": {name: first_weights(name) for name in KINDS},
    }
    secrets, noise = Secrets.seeded(0, "a run"), np.zeros(6, dtype=np.float32)
    add_gaussian_noise(noise, secrets.stream("noise", step=1), 1.0)
    protected = {
        "first protected draws": {"secrets": drawn(secrets), "noise": numbers(noise)},
        "who takes part where that protects": visits(1.0),
        "prices": prices(),
    }
    streams = stream_names()
    return {
        "plain": {
            "version": PLAIN_VERSION,
            "print": {
                "defaults": with_noise(usual, 0.0).flat(),
                **shared,
                "streams": {name: "" for name in streams if not name.startswith(PRIVATE_ONLY)},
            },
        },
        "private": {
            "version": PRIVATE_VERSION,
            "print": {"defaults": usual.flat(), **shared, **protected, "streams": dict.fromkeys(streams, "")},
        },
    }


def stream_names() -> list[str]:
    """The name and keys of every stream that the engine draws from, as they stand in its code."""
    found = set()
    for path in (REPOSITORY / "engine").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "stream":
                found.add(", ".join(map(ast.unparse, [*node.args, *node.keywords])))
    return sorted(found)


def drawn(streams: Seeds | Secrets) -> dict[str, Any]:
    """The first draws of one name, of one with keys, and of one party."""
    sample = poisson_sample(streams.stream("sampling", step=1), SENTENCES, 0.1)
    return {
        "uniform": numbers(streams.stream("one").random(3)),
        "order": streams.stream("one", step=2).permutation(8).tolist(),
        "of a party": numbers(streams.of(client=1).stream("one").random(3)),
        "Poisson sample": sample.tolist(),
    }


def held(kind: str) -> list[list[int]]:
    """The first sentences of each client."""
    ten = np.arange(SENTENCES) // 10
    layout = Layout(
        tokens=np.arange(1, SENTENCES + 1),
        entities=np.stack([np.arange(SENTENCES) % 3, np.arange(SENTENCES) % 5], axis=1),
        types=("LOC", "PER"),
        documents=np.arange(SENTENCES) // 4,
        sections=np.minimum(ten, CLIENTS - 1),
        section_names=("first", "second", "third"),
    )
    shards = partition(SENTENCES, lambda: layout, FederationConfig(clients=CLIENTS, partition=kind), Seeds(0))
    return [shard[:6].tolist() for shard in shards]


def visits(noise_multiplier: float) -> dict[str, Any]:
    """The pieces of an incremental federation, and who is drawn for its rounds, and for those of DP-FedAvg."""
    found: dict[str, Any] = {}
    for mechanism, schedule in (("dp-sgd", "incremental"), ("dp-fedavg", "averaging")):
        config = SimulationConfig.from_flat(
            with_noise(SimulationConfig(), noise_multiplier).flat()
            | {"mechanism": mechanism, "schedule": schedule, "clients": CLIENTS, "rounds": 4, "participants": 2}
        )
        plan = federated_plan(config, SENTENCES, lambda: _none(), lambda: Secrets.seeded(0, "a run"))
        found[mechanism] = {
            "clients": [[visit.client for visit in some] for some in plan.rounds],
            "sentences": [piece[:4].tolist() for piece in plan.sentences],
        }
    return found


def _none() -> Layout:
    raise AssertionError("shards of equal size need no layout")


def first_weights(name: str) -> dict[str, list[float]]:
    """Of each weight of a tagger its first value and the length of all."""
    tagger = build(TaggerConfig(name=name), DIMENSIONS, TAGS, DIMENSIONS // 2 if KINDS[name].in_context else 0)
    flat = tagger.initial_weights(Seeds(0).stream("initial weights"))
    return {
        f"{place} {title}/{part}": numbers([values.flat[0], np.linalg.norm(values)])
        for place, (title, views) in enumerate(zip(tagger.titles, tagger.views(flat), strict=True))
        for part, values in views.items()
    }


def prices() -> dict[str, float]:
    """ε of the default plan on so many sentences, and of shuffled batches."""
    found = {}
    for sampling in ("poisson", "shuffle"):
        config = SimulationConfig.from_flat(SimulationConfig().flat() | {"sampling": sampling})
        plan = PrivacyPlan.from_config(config, 4400)
        found[sampling] = numbers([accounting.privacy_spent(plan, plan.steps).epsilon])[0]
    return found


def numbers(values: Any) -> list[float]:
    """As they are kept."""
    return [float(f"{value:.{DIGITS}g}") for value in values]


def differences(old: Any, new: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(where, before, now) of all that was there and is another now; what is new is no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            yield from differences(value, new.get(name, "nothing"), f"{where}, {name}" if where else name)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, now) in enumerate(zip(old, new, strict=True), 1):
            yield from differences(before, now, f"{where}, number {number}")
    elif not _equal(old, new):
        yield where, old, new


def _equal(old: Any, new: Any) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=1e-5, abs_tol=1e-6)
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)


def complaints(kept: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """What must be done before the fingerprint of this code can be kept: a sentence for each version that must be
    raised."""
    said = []
    for kind, part in kept.items():
        other = list(differences(part["print"], found[kind]["print"]))
        if other and part["version"] == found[kind]["version"]:
            examples = "; ".join(f"{where}: {before!r} → {now!r}" for where, before, now in other[:5])
            more = f"; and {len(other) - 5} more" if len(other) > 5 else ""
            said.append(
                f"The engine's version {part['version']} ({kind} runs) stands for something else now: {examples}{more}."
                f" A run of the same configuration would give other records. Raise {NAMES[kind]} in engine/__init__.py,"
                " or take the change back; then run `python -m tests.engine.fingerprint --write`."
            )
    return said


def is_kept(kept: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether the file says what this code is, new things included."""
    return not any(differences(kept, found)) and not any(differences(found, kept))


def read() -> dict[str, Any]:
    """What is kept."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def main() -> int:
    """Say what is different, or keep it; 1 where a version must be raised first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the fingerprint of this code")
    parser.add_argument(
        "--same-records",
        action="store_true",
        help="keep it although versions stay: for who has computed runs before and after, and found them equal",
    )
    chosen = parser.parse_args()
    found = json.loads(json.dumps(today()))
    said = complaints(read(), found) if FILE.exists() else []
    sys.stderr.write("".join(f"{each}\n" for each in said))
    if said and not chosen.same_records:
        return 1
    if chosen.write or chosen.same_records:
        FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
