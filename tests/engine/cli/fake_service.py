"""A service without the slow functions: training, attacks, downloads, tagging and workers.

Configurations, catalogue, store, budgets and messages stay real.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import create_autospec

import pytest

from engine import PRIVATE_VERSION
from engine.cluster import supervisor
from engine.config import SimulationConfig
from engine.corpus import download
from engine.experiments import audits, tf_privacy_crosscheck
from engine.service import Application
from engine.settings import Settings
from engine.simulation import run
from engine.tagging import pipeline
from engine.tagging.entities import Entity, Tagged
from engine.training.model import Model
from tests.engine.factories import provenance, record

NAMES = {"Germany": "LOC", "Ann": "PER", "Rosa": "PER", "Paris": "LOC", "France": "LOC"}
"""The entities that the fake tagger finds, with their types."""
SCORE = 0.75
"""The fake tagger's probability of each entity."""


class FakeService:
    """Replace each slow function by a mock with the same signature.

    ``simulate`` yields ``records``; tests set the results of the other mocks.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.records = tuple(record(number) for number in range(3))
        self.simulate = _replace(patch, run, "simulate", lambda *_, **__: iter(self.records))
        self.second_opinions = _replace(patch, tf_privacy_crosscheck, "second_opinions")
        self.audit = _replace(patch, audits, "audit")
        self.ensure_cluster = _replace(patch, supervisor, "ensure_cluster")
        self.fetch = _replace(patch, download, "fetch")
        self.text_tagger = _replace(patch, pipeline, "TextTagger")
        self.text_tagger.return_value.tag.side_effect = _tag

    @property
    def trained(self) -> list[SimulationConfig]:
        """Return the configurations that ``simulate`` was called with."""
        return [call.args[0] for call in self.simulate.call_args_list]

    def finish(self, settings: Settings, run_id: str) -> None:
        """Store ``records`` of a queued run, as a worker does."""
        app = Application(settings)
        claim = app._context.store.claim(run_id, "worker")
        for each in self.records:
            app._context.store.append(claim, each)
        app._context.store.finish(claim, provenance(claim.corpus_checksum, PRIVATE_VERSION))
        app.close()


def _replace(patch: pytest.MonkeyPatch, module: Any, name: str, effect: Callable[..., Any] | None = None) -> Any:
    mock = create_autospec(getattr(module, name), side_effect=effect)
    patch.setattr(module, name, mock)
    return mock


def _tag(texts: Sequence[str], models: Sequence[Model]) -> list[list[Tagged]]:
    return [[_tagged(text) for text in texts] for _ in models]


def _tagged(text: str) -> Tagged:
    matches = re.finditer(r"\b(?:" + "|".join(NAMES) + r")\b", text)
    names = tuple(Entity(each.start(), each.end(), NAMES[each[0]], SCORE) for each in matches)
    spans = tuple((each.start, each.end) for each in names)
    return Tagged(spans, tuple(f"B-{each.type}" for each in names), (SCORE,) * len(names), names)
