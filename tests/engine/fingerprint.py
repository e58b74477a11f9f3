"""Fingerprint of everything that determines a run's records before training.

It consists of defaults, first draws of every random stream, initial weights and privacy costs. ``fingerprint.json`` has
one part for each of the engine's two versions. ``python -m tests.engine.fingerprint`` reports differences; ``--write``
saves the fingerprint. It refuses if an existing entry changed under the same engine version: a run of that version
would be mistaken for an equal one.
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
"""Beginnings of the arguments of streams that only private runs draw from."""
SENTENCES, DIMENSIONS, TAGS, CLIENTS = 60, 12, 5, 3
DIGITS = 7
"""Significant digits saved; the last one of a float32 may differ between processors."""


def today() -> dict[str, Any]:
    """Return the fingerprint of this code: the engine's version and its entries, without noise and with noise."""
    usual = SimulationConfig()
    shared = {
        "identity of the default run": run_key(usual, "checksum of a corpus", "version"),
        "first draws": {"seeds": first_draws(Seeds(0)), "shuffled batch": shuffled_batch(Seeds(0), 60, 8, 9).tolist()},
        "who holds what": {kind: client_sentences(kind) for kind in PARTITIONS},
        "who takes part, and pieces": visits(0.0),
        "a share of the data": chosen_sentences(SENTENCES, 0.1, Seeds(0)).tolist(),
        "first weights": {name: first_weights(name) for name in KINDS},
    }
    secrets, noise = Secrets.seeded(0, "a run"), np.zeros(6, dtype=np.float32)
    add_gaussian_noise(noise, secrets.stream("noise", step=1), 1.0)
    protected = {
        "first protected draws": {"secrets": first_draws(secrets), "noise": numbers(noise)},
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
    """Return the name and keys of every stream in the engine's code."""
    found = set()
    for path in (REPOSITORY / "engine").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "stream":
                found.add(", ".join(map(ast.unparse, [*node.args, *node.keywords])))
    return sorted(found)


def first_draws(streams: Seeds | Secrets) -> dict[str, Any]:
    """Return the first draws of a stream, of a stream with keys, and of one client."""
    sample = poisson_sample(streams.stream("sampling", step=1), SENTENCES, 0.1)
    return {
        "uniform": numbers(streams.stream("one").random(3)),
        "order": streams.stream("one", step=2).permutation(8).tolist(),
        "of a party": numbers(streams.of(client=1).stream("one").random(3)),
        "Poisson sample": sample.tolist(),
    }


def client_sentences(kind: str) -> list[list[int]]:
    """Return the first sentences of each client."""
    ten = np.arange(SENTENCES) // 10
    layout = Layout(
        tokens=np.arange(1, SENTENCES + 1),
        entities=np.stack([np.arange(SENTENCES) % 3, np.arange(SENTENCES) % 5], axis=1),
        types=("LOC", "PER"),
        documents=np.arange(SENTENCES) // 4,
        sections=np.minimum(ten, CLIENTS - 1),
        section_names=("first", "second", "third"),
        digests=np.arange(SENTENCES, dtype=np.uint64),
    )
    shards = partition(SENTENCES, lambda: layout, FederationConfig(clients=CLIENTS, partition=kind), Seeds(0))
    return [shard[:6].tolist() for shard in shards]


def visits(noise_multiplier: float) -> dict[str, Any]:
    """Return the pieces of an incremental federation, and the participants of its rounds and of those of DP-FedAvg."""
    found: dict[str, Any] = {}
    for mechanism, schedule in (("dp-sgd", "incremental"), ("dp-fedavg", "averaging")):
        config = SimulationConfig.from_flat(
            with_noise(SimulationConfig(), noise_multiplier).flat()
            | {"mechanism": mechanism, "schedule": schedule, "clients": CLIENTS, "rounds": 4, "participants": 2}
        )
        plan = federated_plan(config, SENTENCES, lambda: _unused_layout(), lambda: Secrets.seeded(0, "a run"))
        found[mechanism] = {
            "clients": [[visit.client for visit in some] for some in plan.rounds],
            "sentences": [piece[:4].tolist() for piece in plan.sentences],
        }
    return found


def _unused_layout() -> Layout:
    raise AssertionError("shards of equal size need no layout")


def first_weights(name: str) -> dict[str, list[float]]:
    """Return the first value and the norm of each weight array of a tagger."""
    tagger = build(TaggerConfig(name=name), DIMENSIONS, TAGS, DIMENSIONS // 2 if KINDS[name].in_context else 0)
    flat = tagger.initial_weights(Seeds(0).stream("initial weights"))
    return {
        f"{place} {title}/{part}": numbers([values.flat[0], np.linalg.norm(values)])
        for place, (title, views) in enumerate(zip(tagger.titles, tagger.views(flat), strict=True))
        for part, values in views.items()
    }


def prices() -> dict[str, float]:
    """Return ε of the default plan on 4,400 sentences, with Poisson sampling and with shuffled batches."""
    found = {}
    for sampling in ("poisson", "shuffle"):
        config = SimulationConfig.from_flat(SimulationConfig().flat() | {"sampling": sampling})
        plan = PrivacyPlan.from_config(config, 4400)
        found[sampling] = numbers([accounting.privacy_spent(plan, plan.steps).epsilon])[0]
    return found


def numbers(values: Any) -> list[float]:
    """Round values as in the file."""
    return [float(f"{value:.{DIGITS}g}") for value in values]


def differences(old: Any, new: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (where, before, now) of every changed or missing entry; new entries are no differences."""
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
    """Return a sentence for each version that must be raised before the fingerprint can be saved."""
    said = []
    for kind, part in kept.items():
        other = list(differences(part["print"], found[kind]["print"]))
        if other and part["version"] == found[kind]["version"]:
            examples = "; ".join(f"{where}: {before!r} → {now!r}" for where, before, now in other[:5])
            more = f"; and {len(other) - 5} more" if len(other) > 5 else ""
            said.append(
                f"The engine's version {part['version']} ({kind} runs) has another fingerprint: {examples}{more}."
                f" A run of the same configuration would give other records. Raise {NAMES[kind]} in engine/__init__.py,"
                " or revert the change; then run `python -m tests.engine.fingerprint --write`."
            )
    return said


def is_kept(kept: dict[str, Any], found: dict[str, Any]) -> bool:
    """Return whether the file equals the fingerprint of this code, new entries included."""
    return not any(differences(kept, found)) and not any(differences(found, kept))


def read() -> dict[str, Any]:
    """Return the saved fingerprint."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def main() -> int:
    """Print the differences or save the fingerprint; return 1 if a version must be raised first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="save the fingerprint of this code")
    parser.add_argument(
        "--same-records",
        action="store_true",
        help="save it under unchanged versions, after runs before and after the change gave equal records",
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
