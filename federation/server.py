"""What the server of a real federation does with the mean of a round. No Flower."""

import json
import math

import numpy as np

from engine.artifact_store import atomic_write
from engine.errors import InvalidConfig
from engine.settings import Settings
from engine.simulation.setup import prepare
from engine.training.model import Model
from federation.configuration import Agreement


class Server:
    """Keeps the common weights, scores them on the public corpus, and writes ``rounds.json`` and ``tagger.npz`` into
    the server's folder. most_examples: sentences that a client may have at most, for the weights of the mean."""

    def __init__(self, agreement: Agreement, settings: Settings) -> None:
        self._agreement, self._settings = agreement, settings
        self._prepared = prepare(agreement.config, settings)
        self._run, (self._side,) = self._prepared.run, self._prepared.sides
        self.weights = self._run.weights
        self.most_examples = 1 if self._run.plan.equal else len(self._side.encoded.train)
        self._rounds: list[dict[str, object]] = []
        self._clients, self._epsilon = 0, 0.0

    def move(self, round: int, mean: np.ndarray, clients: int, epsilon: float) -> None:
        """Take the mean update [size] of so many clients into the weights. epsilon: of the one who paid most."""
        if not np.isfinite(mean).all() or mean.shape != self.weights.shape:
            raise InvalidConfig(f"round={round}: the mean has {mean.size:,} weights, expected {self.weights.size:,}")
        self.weights[:] = self.weights + mean
        self._clients, self._epsilon = clients, max(self._epsilon, epsilon)

    def ends(self, round: int) -> None:
        """Score what there is after a round (0: before the first), and write it down."""
        if round:
            self._run.average.follow()
            self._rounds.append({"round": round, "clients": self._clients, **self._scores("validation")})
            self._write()
            self._clients = 0

    def _scores(self, part: str) -> dict[str, object]:
        scores = self._side.scores(part, self._run.average.weights, lambda: None)
        return {"f1": scores.f1, "epsilon": None if math.isinf(self._epsilon) else self._epsilon}

    def finish(self) -> None:
        """Score on the test part, and keep the tagger."""
        self._rounds.append({"test": True, **self._scores("test")})
        self._write()
        Model(
            run_id=self._prepared.run_id,
            config=self._agreement.config,
            weights=self._run.average.weights.copy(),
            tags=self._side.encoded.tags,
            dimensions=self._side.encoded.vectors.shape[1],
            copied=self._side.encoded.copied,
            corpus_checksum=self._prepared.corpus_checksum,
            engine_version=self._prepared.engine_version,
            epsilon=self._epsilon,
            delta=self._agreement.config.privacy.delta,
        ).save(self._agreement.server / "tagger.npz")

    def _write(self) -> None:
        with atomic_write(self._agreement.server / "rounds.json", "What the rounds gave") as passing:
            passing.write_text(json.dumps(self._rounds, indent=1), encoding="utf-8")
