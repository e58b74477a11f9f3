"""Page Privacy audit: with made-up audits, without audits, and the canary quiz."""

import math
from contextlib import closing
from dataclasses import replace

import pytest

from engine.cluster import supervisor
from engine.config import SimulationConfig
from engine.experiments import recommended_settings
from engine.lessons import find_the_canary
from engine.lessons.find_the_canary import Canary, Game
from engine.privacy.audit import power
from engine.records import Audit, RunState
from engine.reports.audits import server_text
from engine.service import Application
from engine.store import audits
from pages.audit import canary_quiz, charts, messages
from pages.audit.groups import chosen, groups, name_of
from tests.engine.store.test_audits import AUDIT, CANARIES, MEMBERSHIP, SERVER
from tests.pages.reading import figures

GOOD = replace(recommended_settings.with_minilm("synthetic", 14_041, 3.0), corpus="synthetic")
WHITE = replace(CANARIES, claimed=3.0, bound_of_trials=1.5, check_failed=False)


def made_up(seed: int = 0, **changes) -> Audit:
    black = replace(WHITE, kind="sentences", bound=0.0, bound_of_trials=None)
    fields = {"run_id": f"{seed:016x}", "config": replace(GOOD, seed=seed), "white": WHITE, "black": black}
    own = SERVER.readings[0]
    reads = replace(own, noise_multiplier=0.0, by_message=True, right=100)
    server = replace(SERVER, readings=(reads, replace(own, noise_multiplier=GOOD.privacy.noise_multiplier)))
    if not seed:
        fields |= {"membership": MEMBERSHIP, "server": server}
    return replace(AUDIT, **({"membership": None, "server": None} | fields | changes))


def test_groups_combine_seeds_of_a_configuration():
    by_run = {audit.run_id: audit for audit in (made_up(1), made_up(0), replace(AUDIT, run_id="ab"))}
    result = groups(by_run)
    assert sorted(len(group.audits) for group in result) == [1, 2]
    both = next(group for group in result if len(group.audits) == 2)
    assert both.config == replace(GOOD, seed=0)
    assert both.title == "Recommended settings with MiniLM, ε = 3"
    assert both.membership == MEMBERSHIP
    assert chosen(result, f"{1:016x}") is both
    assert chosen(result, "none") is None


def test_recipe_steps_have_the_same_name_at_every_epsilon():
    for epsilon in (1.0, 8.0, None):
        assert (
            name_of(recommended_settings.recipe_step(recommended_settings.WITH_MINILM, "conll2003", 14_041, epsilon))
            == "Recommended settings with MiniLM"
        )
        assert name_of(recommended_settings.recipe_step(0, "conll2003", 14_041, epsilon)) == "Paper settings"
    assert "linear" in name_of(SimulationConfig.from_flat({"tagger": "linear-crf"})).lower()


def test_answer_has_claimed_and_measured_epsilon():
    (group,) = groups({audit.run_id: audit for audit in (made_up(0), made_up(1))})
    text = messages.answer(group)
    assert "Recommended settings with MiniLM, ε = 3 claimed" in text
    assert "lower bounds on ε, means over 2 seeds: 1.5 (white-box attacker)" in text
    assert "less than 0.01 (black-box attacker)" in text
    assert "members" not in text
    members = messages.members(group.membership)
    assert figures(members)[:2] == ["100", "1,000"]
    assert members.endswith("10 of 1,000 non-members.")


def with_joint_bound(seed: int, right: int = 9700) -> Audit:
    """Return an audit that has what a joint bound over seeds needs."""
    white = replace(WHITE, canaries=20_000, made=20_000, right=9800, trials=(right, 18_000), examples=34_041)
    return made_up(seed, white=white, black=None)


def test_seeds_have_one_joint_bound():
    (group,) = groups({audit.run_id: audit for audit in (with_joint_bound(0), with_joint_bound(1))})
    (alone,) = groups({"a": with_joint_bound(0)})
    assert alone.joint(alone.white) is None
    assert 0 < group.bound(group.white) == group.joint(group.white) < group.claimed
    assert "jointly over 2 seeds" in messages.answer(group)
    assert groups({"a": made_up(0), "b": made_up(1)})[0].joint([WHITE, WHITE]) is None


def test_joint_bound_above_the_claim_contradicts_it():
    audits_of_seeds = [with_joint_bound(seed, 15_000) for seed in (0, 1)]
    (group,) = groups({audit.run_id: audit for audit in audits_of_seeds})
    assert not group.contradicted
    assert group.jointly_contradicted
    assert "joint lower bound over 2 seeds exceeds" in messages.answer(group)


def test_power_is_stated_for_each_attacker():
    group = groups({"a": made_up(0, white=replace(WHITE, canaries=1000), black=None)})[0]
    (line,) = messages.power(group)
    assert line.startswith("White-box attacker")
    assert "half of such audits contradict any claim below" in line
    assert messages.runs(group)[0]["median bound ÷ ε"].count("·") == 2


def test_server_readings_have_their_noise():
    (group,) = groups({audit.run_id: audit for audit in (made_up(1), made_up(0))})
    server, sigma = group.server
    first, second = messages.readings(server, sigma)
    assert (first["reconstructed"], first["precision"], first["recall"]) == (
        "words of the messages",
        100,
        50,
    )
    assert second[""] == "this run"
    assert second["reconstructed"].startswith("nothing")
    more = replace(server, readings=(*server.readings, replace(server.readings[-1], noise_multiplier=9.0)))
    assert messages.readings(more, sigma)[-1]["reconstructed"] == "not measured: value at less noise"
    assert server_text(more, 9.0).endswith("; this noise was not measured")
    alone = made_up(0, white=None, black=None, membership=None)
    (only,) = groups({"a": alone})
    assert only.claimed == 3.0
    assert "only frequent words" in messages.answer(only)
    assert server_text(server, sigma).endswith("only frequent words; up to σ = 0 it reconstructs some words")
    text = server_text(server, 0.0)
    assert figures(text[text.index("100 words") :])[:3] == ["100", "100 %", "200"]


def test_contradicted_claim_is_listed_first():
    broken = made_up(0, white=replace(WHITE, bound_of_trials=4.0))
    (group,) = groups({"a": broken})
    assert "1 of 2 runs" in messages.answer(group)
    assert messages.runs(group)[0]["result"].startswith("✗")
    assert messages.runs(group)[1]["result"].startswith("✓")


def test_charts_have_claimed_above_measured_epsilon_and_roc_bounds():
    figure = charts.claims(groups({"a": made_up(0)}), key="a")
    claimed, white = (
        next(trace for trace in figure.data if name in (trace.name or "")) for name in ("claimed", "white-box")
    )
    assert claimed.x[0] > white.x[0]
    curve = charts.roc_curves(MEMBERSHIP, key="b")
    permitted = next(trace for trace in curve.data if (trace.name or "").startswith("permitted"))
    assert list(permitted.y) == sorted(permitted.y)
    assert permitted.y[-1] == 1
    (marks,) = (trace for trace in curve.data if trace.error_y.array is not None)
    shown = MEMBERSHIP.strongest.shown
    assert [y + up for y, up in zip(marks.y, marks.error_y.array, strict=True)] == pytest.approx(
        [most for *_, most in shown]
    )


def test_ceiling_is_stated_only_without_noise():
    free = replace(WHITE, claimed=math.inf, canaries=1000)
    assert "cannot exceed ε = 5.8" in messages.ceiling(groups({"a": made_up(0, white=free)}))
    assert messages.ceiling(groups({"a": made_up(0)})) == ""


def test_page_without_audits_explains_how_to_start_one(open_page):
    page = open_page("audit")
    assert not page.exception
    assert "No audit has been run yet" in page.markdown[0].value
    assert any("retrains a configuration with canaries" in each.value for each in page.markdown)
    assert any("No run is finished yet" in each.value for each in page.caption)


@pytest.fixture
def measured(settings):
    for seed in (0, 1):
        audits.write(made_up(seed), settings.artefacts)


def test_page_shows_audits_and_notes_a_run_without_one(open_page, measured):
    page = open_page("audit")
    assert not page.exception
    assert "means over 2 seeds" in page.markdown[0].value
    assert any("A mean is not a 95 % bound" in each.value for each in page.caption)
    assert any("the claim is contradicted at 95 % confidence" in each.value for each in page.caption)
    assert any("finds nothing does not prove privacy" in each.value for each in page.markdown)
    page = open_page("audit", run="0123456789abcdef")
    assert "has not been audited" in page.info[0].value
    assert "0123456789abcdef" in page.error[0].value
    page = open_page("audit", run=f"{1:016x}")
    assert not page.info


def test_canary_quiz_counts_correct_guesses(open_page, measured, monkeypatch):
    canaries = tuple(Canary(("Tola", "*came*"), (True, False), 0.1, 0.5, place % 2 == 0) for place in range(8))
    monkeypatch.setattr(find_the_canary, "deal", lambda settings, target, number: Game(target, canaries, 0.75))
    canary_quiz._deal.clear()
    page = open_page("audit")
    assert not page.checkbox
    page.toggle(key="canary_train").set_value(True).run()
    assert page.checkbox[0].label.startswith("**Tola** \\*came\\*")
    for place in (0, 2, 3):
        page.checkbox(key=f"canary-{place}").check()
    next(button for button in page.button if button.label == "Submit guess").click().run()
    assert not page.exception
    assert any(
        "**5 of 8 guesses are correct.**" in each.value and "no upper limit" in each.value for each in page.markdown
    )


def test_quiz_words_are_escaped():
    assert canary_quiz._plain("<b>*x*[y](z)$") == "\\<b\\>\\*x\\*\\[y\\]\\(z\\)\\$"
    assert math.isinf(find_the_canary.EPSILONS[0])


def test_calibration_rows_have_coverage_and_detection():
    cell = {"family": "any", "epsilon": 3.0, "coverage": 0.99, "median": 1.5, "half_the_noise_caught": 1.0}
    (row,) = messages.known_mechanisms({"repetitions": 9, "cells": [cell]})
    assert row["median bound ÷ ε"] == 0.5
    assert row["coverage, %"] == 99.0
    cell = {"fault": "no noise", "contradicted": 9, "bound_mean": 7.0, "check_failed": 10}
    (row,) = messages.faulty_trainings({"runs": 10, "claimed": 1.0, "cells": [cell]})
    assert row["claim contradicted"] == "9 of 10"
    first = messages.sizes(power.cells())[0]
    assert first["canaries"] == power.cells()[0]["canaries"]
    assert [name for name in first if name.startswith("at ε")] == ["at ε = 1", "at ε = 3", "at ε = 8"]


def test_page_shows_the_calibration(open_page, with_published):
    page = open_page("audit", with_published)
    assert not page.exception
    shown = {name for table in page.dataframe for name in table.value.columns}
    assert {"median bound ÷ ε", "noise check fails"} <= shown


def test_audit_can_be_started_and_cancelled(open_page, with_published, measured, monkeypatch):
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    with closing(Application(with_published)) as app:
        run = next(each for each in app.queries.published() if each.config.corpus == "synthetic" and not each.outdated)
        page = open_page("audit", with_published, run=run.run_id)
        assert "has not been audited" in page.info[0].value
        assert any(each.value.startswith("An audit trains one model with 1,000 canaries") for each in page.caption)
        page.button(key="attack").click().run()
        assert not page.exception
        assert app.audits.status(run.run_id).state == RunState.QUEUED
        page.button(key="audit_cancel").click().run()
        assert not page.exception
        assert app.audits.status(run.run_id).state == RunState.CANCELLED
        assert page.button(key="attack")
