"""Plans over all runs of a home: relevant corpus content, privacy cost of the next run, and texts."""

import json
import math
import re
import sys
from dataclasses import replace

import pytest

from engine.cli.main import main
from engine.config import SimulationConfig, with_noise
from engine.config.mechanism_registry import ADD_OR_REMOVE, ZERO_OUT
from engine.experiments.planner import evidence as known
from engine.experiments.planner.next_runs import BEYOND, FROM_CURVE, MORE_SEEDS
from engine.experiments.planner.targets import Measure, Target, Threshold
from engine.privacy import accounting
from engine.privacy.plan import PrivacyPlan
from engine.reports import planner as words
from engine.service import Application, Overview, planner
from engine.settings import Settings
from tests.engine.experiments.test_planner import made

CORPUS = "conll2003"


@pytest.fixture
def app(settings):
    opened = Application(settings)
    yield opened
    opened.close()


def overviews(*found) -> list[Overview]:
    return [Overview(run, last, "") for run, last in found]


def target(f1: float = 0.6, **fields) -> Target:
    return Target(**({"corpus": CORPUS, "thresholds": (Threshold(Measure(), f1),)} | fields))


def two_configs(**fields) -> list[Overview]:
    """Return two configurations of one family with five seeds each."""
    return overviews(
        *(
            made(value + 0.01 * (seed - 2), epsilon=epsilon, seed=seed, seconds=20.0, corpus=CORPUS, **fields)
            for epsilon, value in ((1.0, 0.4), (4.0, 0.8))
            for seed in range(5)
        )
    )


def test_next_run_has_the_smallest_allowed_noise(app):
    plan = planner.plan(app, target(epsilon=3.0), two_configs())
    (found,) = plan.next_runs
    assert found.candidate.rule == FROM_CURVE
    assert found.candidate.epsilon == 2.0
    sigma = found.config.privacy.noise_multiplier

    def cost(noise: float) -> float:
        priced = PrivacyPlan.from_config(with_noise(found.config, noise), 14_041)
        return accounting.epsilon(priced, priced.steps)

    assert sigma == round(sigma, 2)
    assert found.epsilon == cost(sigma) <= 2.0 < cost(sigma - 0.01)
    assert found.seconds == pytest.approx(5 * 20.0)
    assert replace(found.config, privacy=plan.lines[0][0].config.privacy) == plan.lines[0][0].config


def test_adjacency_of_the_evidence_is_stated_with_that_of_the_next_run(app):
    """The measured runs are of a version that stored another adjacency."""
    moved = {"data_fraction": 0.5}
    for neighbouring in (ADD_OR_REMOVE, ZERO_OUT):
        here = [
            replace(each, last_record=replace(each.last_record, privacy=replace(each.last_record.privacy, **held)))
            for held in [{"neighbouring": neighbouring}]
            for each in two_configs(**moved)
        ]
        plan = planner.plan(app, target(epsilon=3.0), here)
        fields = words.plan_fields(plan)
        assert [run["neighbouring"] for run in fields["next_runs"]] == [ZERO_OUT]
        assert {row["neighbouring"] for row in words.rows(plan.answer.compared)} == {neighbouring}
        assert neighbouring in words.adjacency_note(plan)
        assert words.adjacency_note(plan) in words.plan_text(plan)
        assert (f"another one: {neighbouring}" in words.next_text(plan.next_runs[0])) == (neighbouring != ZERO_OUT)
    reached = planner.plan(app, target(0.5), here)
    assert f"adjacency: {ZERO_OUT})" in words.plan_text(reached)


def test_runs_of_two_adjacencies_are_compared_under_the_common_one(app):
    first, *others = two_configs()
    last = first.last_record
    other = replace(first, last_record=replace(last, privacy=replace(last.privacy, neighbouring=ZERO_OUT)))
    assert ADD_OR_REMOVE in words.adjacency_note(planner.plan(app, target(), [first, *others]))
    assert ZERO_OUT in words.adjacency_note(planner.plan(app, target(), [other, *others]))
    plain = overviews(made(0.5, epsilon=math.inf, corpus=CORPUS))
    assert words.adjacency_note(planner.plan(app, target(), plain)) == ""


def test_next_runs_exclude_slow_and_unpriced_candidates(app):
    assert planner.plan(app, target(epsilon=3.0, seconds=19.0), two_configs()).next_runs == ()
    here = two_configs(clients=5, partition="document")
    plan = planner.plan(app, target(epsilon=3.0), here)
    assert (plan.next_runs, plan.unpriced) == ((), 1), "who holds how much only the corpus tells, which is not here"
    assert "depends on the corpus" in " ".join(words.explanations(plan))


def test_more_seeds_are_recommended_with_their_epsilon(app):
    found = overviews(
        *(made(value, epsilon=1.0, seed=seed, corpus=CORPUS) for seed, value in enumerate((0.52, 0.54, 0.56)))
    )
    plan = planner.plan(app, target(0.525), found)
    (more,) = plan.next_runs
    assert (more.candidate.rule, more.config.seed, more.epsilon) == (MORE_SEEDS, 3, 1.0)
    assert "F1 ≥ 0.525 can be reached" in words.answer_text(plan)
    assert words.answer_text(plan).endswith(": at ε = 1 (mean above the target).")
    assert f"{more.candidate.runs} runs with σ = 1, ε = 1 each" in words.next_text(more)


def test_only_runs_on_the_local_corpus_content_count(app):
    here = app.queries.corpus(SimulationConfig()).checksum
    found = overviews(made(0.5, checksum=here), *(made(0.9, seed=seed, checksum="1" * 64) for seed in (1, 2)))
    plan = planner.plan(app, target(0.4, corpus="synthetic"), found)
    assert plan.evidence.runs == 1
    assert plan.evidence.left_out == {known.OTHER_CONTENT: 2}
    assert words.left_out_lines(plan) == [f"2 runs {known.OTHER_CONTENT}"]


def test_answer_text_without_a_matching_config(app):
    def said(target: Target, *found) -> tuple[str, str]:
        plan = planner.plan(app, target, overviews(*found))
        return words.answer_text(plan), " ".join(words.explanations(plan))

    assert said(target())[0].startswith("No finished run on CoNLL-2003 ")
    private, plain = made(0.5, epsilon=1.0, corpus=CORPUS), made(0.7, epsilon=math.inf, corpus=CORPUS)
    answer, more = said(target(), private, plain)
    parts = ("None of the 1 private runs", " F1 ≥ 0.6;", "without noise it is reached")
    assert all(part in answer for part in parts)
    assert "Nearest configuration, at ε = 1: F1 0.500, 0.100 below the target." in more
    assert "Without noise: F1 0.700." in more
    answer, more = said(target(0.9), private, plain)
    assert all(part in answer for part in ("None of the 2 runs", " F1 ≥ 0.9:", "no configuration"))
    assert re.search(r"best configuration without noise misses.*: F1 0\.700, 0\.200 below the target\.", more)
    assert "no ε is likely" in more
    answer, more = said(target(0.45, epsilon=0.5), private)
    assert all(part in answer for part in ("None of the 1 runs", " F1 ≥ 0.45 at ε ≤ 0.5:", "no configuration"))
    assert all(part in more for part in ("Outside these limits", "at ε = 1 (single run),"))
    assert "unknown whether a larger ε" in said(target(), private)[1]
    answer, _ = said(target(), plain)
    parts = ("None of the 1 runs", "has noise", "Without noise, F1 ≥ 0.6 is reached")
    assert all(part in answer for part in parts)
    answer, more = said(Target(corpus=CORPUS, epsilon=0.5), private)
    assert all(part in answer for part in ("None of the 1 runs", " at ε ≤ 0.5."))
    assert more == ""
    answer, _ = said(Target(corpus=CORPUS, epsilon=1.0), private)
    assert "Highest score" in answer
    assert answer.endswith(" at ε ≤ 1: F1 0.500, at ε = 1.")


def test_fields_are_json_without_infinity(app):
    found = [*two_configs(), *overviews(made(0.9, epsilon=math.inf, corpus=CORPUS))]
    plan = planner.plan(app, target(0.85), found)
    assert [each.candidate.rule for each in plan.next_runs] == [BEYOND]
    fields = json.loads(json.dumps(words.plan_fields(plan), allow_nan=False))
    assert fields["settings"] == []
    assert fields["without_noise"]["epsilon"] is None
    assert fields["nearest"]["f1"] == pytest.approx(0.8)
    assert fields["nearest"]["f1_low"] < 0.8 < fields["nearest"]["f1_high"]
    assert fields["compared"] == {"settings": 3, "runs": 11}
    assert len(fields["curves"][0]["band"]) == 2
    assert fields["next_runs"][0]["runs"] == 5
    assert "--noise-multiplier" in fields["next_runs"][0]["command"]


# Command line


@pytest.fixture
def shell(with_published, monkeypatch, capsys):
    monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls: with_published))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["engine", "plan", *arguments])
        code = main()
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.mark.repeats(area="processes")
def test_command_uses_published_runs(shell, with_published):
    files = [json.loads(path.read_text()) for path in with_published.published.glob("*.json")]
    count = sum(each["config"]["corpus"] == CORPUS for each in files if "config" in each)
    assert count > 400
    code, out, _ = shell(CORPUS, "--f1", "0.8", "--recall", "PER=0.9", "--json")
    assert code == 0
    fields = json.loads(out)
    assert fields["settings"]
    for each in fields["settings"]:
        assert each["f1"] >= 0.8
        assert each["recall_PER"] >= 0.9
    assert fields["compared"]["runs"] + sum(fields["left_out"].values()) == count
    code, out, _ = shell(CORPUS, "--f1", "0.99")
    assert code == 0
    assert re.match(rf"None of the {count} runs .* F1 ≥ 0\.99:", out)
    assert "no ε is likely" in out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "the target is empty"),
        (("--f1", "1.2"), "f1=1.2, expected a number in (0, 1]"),
        (("--recall", "DRUG=0.5"), "type='DRUG', expected one of those that the corpus has: LOC, MISC, ORG, PER"),
        (("--f1", "high"), "f1='high', expected a number"),
        (("--epsilon", "-1"), "epsilon=-1.0"),
    ],
)
def test_invalid_arguments_exit_with_code_2(shell, arguments, word):
    code, out, err = shell(CORPUS, *arguments)
    assert (code, out) == (2, "")
    assert word in err
    assert err.count("\n") == 1
