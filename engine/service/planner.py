"""Recommendation for a corpus: the answer of its runs to a target, the fitted curves, and the cost of the next runs."""

import math
from collections.abc import Sequence
from contextlib import suppress

from engine.config import SimulationConfig, with_noise
from engine.errors import CorpusError, InvalidConfig
from engine.experiments.planner import curve as curves
from engine.experiments.planner import evidence as known
from engine.experiments.planner import ranking as answers
from engine.experiments.planner.next_runs import MORE_SEEDS, Candidate, candidates
from engine.experiments.planner.recommendation import NextRun, Recommendation
from engine.experiments.planner.targets import Target
from engine.service.application import Application
from engine.service.run_queries import Overview
from engine.service.runtime_estimates import estimate


def plan(app: Application, target: Target, found: Sequence[Overview] | None = None) -> Recommendation:
    """Return the recommendation from all finished runs on the target's corpus, with the fastest next runs first.

    The search for the noise of a next run can take seconds on the first call.

    Args:
        app: The application.
        target: The target.
        found: All runs, if the caller has them.

    Raises:
        InvalidConfig: If the corpus lacks an entity type of the target.
        StoreError: If the store cannot be read.
    """
    overview = app.queries.overview() if found is None else found
    done = known.done(((each.run, each.last_record) for each in overview), target.corpus)
    evidence = known.evidence(done, target, _checksum(app, target.corpus))
    answer = answers.answer(target, evidence)
    families = curves.families(evidence.settings)
    points = [(family, family.points(target.main)) for family in families]
    priced, unpriced = [], 0
    for candidate in candidates(answer, families, evidence.settings):
        try:
            priced.append(_with_cost(app, candidate, target))
        except CorpusError:
            unpriced += 1
    return Recommendation(
        target=target,
        evidence=evidence,
        answer=answer,
        lines=tuple((family, curves.fit(each)) for family, each in points),
        error=curves.fit_error(each for _, each in points),
        next_runs=tuple(
            sorted(
                (each for each in priced if each and each.within),
                key=lambda each: math.inf if each.seconds is None else each.seconds,
            )
        ),
        unpriced=unpriced,
    )


def _checksum(app: Application, corpus: str) -> str | None:
    try:
        return app.queries.corpus(SimulationConfig(corpus=corpus)).checksum
    except CorpusError:
        return None


def _with_cost(app: Application, candidate: Candidate, target: Target) -> NextRun | None:
    """Return a next run with its ε and duration; None if no noise gives its ε.

    Raises:
        CorpusError: If ε depends on a corpus that is not on this machine.
    """
    provenance = candidate.like.done[0].run.provenance
    config, epsilon = candidate.config, candidate.epsilon
    adjacency = candidate.like.adjacency
    with suppress(CorpusError):
        adjacency = app.previews.plan(config).neighbours
    if candidate.rule != MORE_SEEDS:
        try:
            exact = app.previews.noise_multiplier_for(config, epsilon)
        except InvalidConfig:
            return None
        config = with_noise(config, math.ceil(100 * exact) / 100)
        epsilon = app.previews.preview(config).privacy.epsilon
    duration = estimate(
        config, provenance.train_sentences if provenance else 0, [], [done.run for done in candidate.like.done]
    )
    seconds = duration.seconds if duration else None
    within = target.seconds is None or seconds is None or seconds <= target.seconds
    total = None if seconds is None else seconds * candidate.runs
    return NextRun(candidate, config, epsilon, adjacency, total, within)
