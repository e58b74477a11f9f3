"""The common model of a real federation on the server. This module does not import Flower."""

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
    """The common weights, scored on the public corpus, and the files of the server's folder.

    The files are ``rounds.json``, with the scores of each round, and ``tagger.npz``, the final model.

    Attributes:
        weights: Common weights, float32 [size].
        most_examples: Largest number of sentences of a client, for the weights of the mean.
    """

    def __init__(self, agreement: Agreement, settings: Settings) -> None:
        self._agreement, self._settings = agreement, settings
        self._prepared = prepare(agreement.config, settings)
        self._run, (self._side,) = self._prepared.run, self._prepared.sides
        self.weights = self._run.weights
        self.most_examples = 1 if self._run.plan.equal else len(self._side.encoded.train)
        self._rounds: list[dict[str, object]] = []
        self._clients, self._epsilon = 0, 0.0

    def move(self, round: int, mean: np.ndarray, clients: int, epsilon: float) -> None:
        """Add the mean update of a round to the common weights.

        Args:
            round: Number of the round, from 1.
            mean: Mean update, [size].
            clients: Number of clients in the mean.
            epsilon: Worst-case ε over clients.

        Raises:
            InvalidConfig: If the mean has another size or is not finite.
        """
        if not np.isfinite(mean).all() or mean.shape != self.weights.shape:
            raise InvalidConfig(
                f"round={round}: the mean has {mean.size:,} weights, expected {self.weights.size:,} finite weights"
            )
        self.weights[:] = self.weights + mean
        self._clients, self._epsilon = clients, max(self._epsilon, epsilon)

    def end_round(self, round: int) -> None:
        """Score the model after a round, and write the scores; do nothing for 0, before the first round."""
        if round:
            self._run.average.follow()
            self._rounds.append({"round": round, "clients": self._clients, **self._scores("validation")})
            self._write()
            self._clients = 0

    def _scores(self, part: str) -> dict[str, object]:
        scores = self._side.scores(part, self._run.average.weights, lambda: None)
        return {"f1": scores.f1, "epsilon": None if math.isinf(self._epsilon) else self._epsilon}

    def finish(self) -> None:
        """Score the model on the test set, and save it."""
        self._rounds.append({"test": True, **self._scores("test")})
        self._write()
        Model(
            run_id=self._prepared.run_id,
            config=self._agreement.config,
            weights=self._run.average.weights.copy(),
            tags=self._side.encoded.tags,
            dimensions=self._side.encoded.vectors.shape[1],
            copied=self._side.encoded.copied,
            engine_version=self._prepared.engine_version,
            epsilon=self._epsilon,
            delta=self._agreement.config.privacy.delta,
        ).save(self._agreement.server / "tagger.npz")

    def _write(self) -> None:
        with atomic_write(self._agreement.server / "rounds.json", "The scores of the rounds") as temporary:
            temporary.write_text(json.dumps(self._rounds, indent=1), encoding="utf-8")
