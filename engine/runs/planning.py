"""A plan for a corpus: what its runs say of a target, the curves behind it, and what the next runs would cost."""

import math
from collections.abc import Sequence
from dataclasses import replace

from engine.config import SimulationConfig, with_noise
from engine.errors import CorpusError, InvalidConfig
from engine.experiments.planner import answer as answers
from engine.experiments.planner import curve as curves
from engine.experiments.planner import evidence as known
from engine.experiments.planner.next_runs import MORE_SEEDS, Candidate, candidates
from engine.experiments.planner.plan import NextRun, Plan
from engine.experiments.planner.targets import Target
from engine.privacy import accounting
from engine.privacy.plan import PrivacyPlan
from engine.runs.catalogue import Overview
from engine.runs.door import Runs
from engine.runs.estimates import estimate


def plan(runs: Runs, target: Target, found: Sequence[Overview] | None = None) -> Plan:
    """What all finished runs on the target's corpus say, the cheapest next run first where none surely reaches it.
    found: all runs, where they are known already. Finding the noise of a next run takes up to seconds at first. Raises
    InvalidConfig for a type that the corpus has not, StoreError."""
    overview = runs.overview() if found is None else found
    done = known.done(((each.run, each.last) for each in overview), target.corpus)
    evidence = known.evidence(done, target, _checksum(runs, target.corpus))
    answer = answers.answer(target, evidence)
    families = curves.families(evidence.settings)
    points = [(family, family.points(target.main)) for family in families]
    wanted = candidates(answer, families, evidence.settings)
    priced = [each for each in (_priced(runs, one, target) for one in wanted) if each and each.within]
    return Plan(
        target=target,
        evidence=evidence,
        answer=answer,
        lines=tuple((family, curves.fit(each)) for family, each in points),
        error=curves.fit_error(each for _, each in points),
        next_runs=tuple(sorted(priced, key=lambda each: math.inf if each.seconds is None else each.seconds)),
    )


def _checksum(runs: Runs, corpus: str) -> str | None:
    try:
        return runs.corpus(SimulationConfig(corpus=corpus)).checksum
    except CorpusError:
        return None


def _priced(runs: Runs, candidate: Candidate, target: Target) -> NextRun | None:
    """None where no noise gives that ε."""
    made = candidate.like.done[0].run.provenance
    sentences = made.train_sentences if made else 0
    config, epsilon = candidate.config, candidate.epsilon
    if candidate.rule != MORE_SEEDS:
        try:
            config, epsilon = _with_epsilon(runs, config, sentences, epsilon)
        except (CorpusError, InvalidConfig):
            return None
    judged = estimate(config, sentences, [], [one.run for one in candidate.like.done])
    one = judged.seconds if judged else None
    within = target.seconds is None or one is None or one <= target.seconds
    return NextRun(candidate, config, epsilon, None if one is None else one * candidate.runs, within)


def _with_epsilon(
    runs: Runs, config: SimulationConfig, sentences: int, epsilon: float
) -> tuple[SimulationConfig, float]:
    """The same with the least noise, to two decimals, that costs at most so much, and what it costs. Raises CorpusError
    where that depends on a corpus that is not here, InvalidConfig where no noise does."""
    central = config.federation.clients == 1
    if central:  # no corpus is needed, which may not be here
        exact = accounting.noise_multiplier_for(epsilon, PrivacyPlan.from_config(config, sentences))
    else:
        exact = runs.noise_multiplier_for(config, epsilon)
    noisy = with_noise(replace(config, seed=0), math.ceil(100 * exact) / 100)
    if central:
        priced = PrivacyPlan.from_config(noisy, sentences)
        return noisy, accounting.epsilon(priced, priced.steps)
    return noisy, runs.preview(noisy).privacy.epsilon
