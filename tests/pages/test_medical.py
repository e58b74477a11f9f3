"""The page Medical, run without a browser: what it says follows from the runs and from what is chosen."""

import math
import re
from dataclasses import replace

import pytest

from engine.config import NOTHING, SimulationConfig
from engine.experiments import shared_parameters
from engine.experiments.papers import fedner_2020
from engine.records import Run
from engine.reports import fedner
from engine.service import Application
from engine.service.corpus_service import CorpusService
from engine.service.run_queries import RunQueries
from engine.service.run_service import RunService
from engine.settings import REPOSITORY, Settings
from pages.medical import charts, live, messages, tables
from pages.medical.data_flow_diagram import drawing
from tests.engine.experiments.papers.test_fedner_2020 import run

PARTS = [shared_parameters.Part("hidden", 77_312, leaves=True), shared_parameters.Part("scores", 666, leaves=False)]


def found(together: int, as_often: int, alone: int) -> dict[SimulationConfig, Run]:
    """Runs of Table 2 with so many of 10 names found, and one more with each seed."""
    made = {}
    for seed in range(3):
        config = fedner_2020.with_seed(fedner_2020.federated(), seed)
        nothing = fedner_2020.with_seed(fedner_2020.federated(shared=NOTHING), seed)
        for each, right in ((config, together), (nothing, as_often)):
            made[each] = run(each, dict.fromkeys(config.platforms, right + seed))
        for name in config.platforms:
            own = fedner_2020.with_seed(fedner_2020.setting(fedner_2020.corpus_of(name.partition("@")[0])), seed)
            made[own] = run(own, {name: alone + seed})
    return made


def measured(known: dict[SimulationConfig, Run]) -> list[fedner_2020.Row]:
    return [fedner_2020.measure(cell, known.get) for cell in fedner_2020.cells()]


def test_whether_sharing_pays_is_in_the_first_sentence() -> None:
    assert messages.answer(measured({})) == messages.NOT_RUN
    gained = messages.answer(measured(found(6, 5, 3)))
    assert "ADE +10.0, PsyTAR +10.0, BC5CDR +10.0" in gained
    assert "3 seeds" in gained
    assert "gain" in gained
    lost = messages.answer(measured(found(4, 5, 3)))
    assert "ADE −10.0" in lost
    assert "cost" in lost
    known = found(6, 5, 3)
    one = {config: made for config, made in known.items() if not config.seed}
    alone = messages.answer(measured(one))
    assert "ADE +10.0, PsyTAR +10.0" in alone
    assert "one seed" in alone
    known = found(5, 5, 3)
    mixed = {config: made for config, made in known.items() if config.seed or config.federation.shared != NOTHING}
    assert "over 2 seeds" in messages.answer(measured(mixed))


def test_rows_are_in_per_cent_beside_what_was_printed() -> None:
    here = [row for row in measured(found(6, 5, 3)) if row.cell.table == "table2" and row.cell.platform == "ade"]
    shown = {row["method"]: row for row in tables.rows(here)}
    assert shown["FedNER"]["strict F1"] == pytest.approx(70)
    assert shown["FedNER"]["printed strict"] == pytest.approx(82.57)
    assert shown["FedNER"]["seeds"] == "3"
    elsewhere = [row for row in measured({}) if row.cell.table == "table2" and row.cell.platform == "psytar"]
    assert not any(name.startswith("printed") for row in tables.rows(elsewhere) for name in row)
    assert shown["CNN-CRF, alone"]["strict F1"] is None
    gains = tables.gains(here)
    assert {row["compared with"]: round(row["gain, points"]) for row in gains} == {
        fedner_2020.ALONE: 30,
        fedner_2020.ALONE_AS_OFTEN: 10,
    }


def test_each_way_of_training_has_a_trace_and_printed_numbers_stand_beside() -> None:
    rows = [row for row in measured(found(6, 5, 3)) if row.cell.platform == "ade"]
    names = {}
    for table in fedner_2020.TABLES:
        here = [row for row in rows if row.cell.table == table]
        names[table] = [trace.name for trace in charts.picture(here, table, charts.STRICT, key=table).data]
    three = ["alone, batches of 64", "alone, as many updates", "within FedNER"]
    assert names["table2"] == [*three, "printed"]
    assert names["figure3"] == [*three, "printed"]
    assert names["figure4"] == ["within FedNER"]
    assert names["figure5"] == three[1:]
    assert names["figure6"] == ["alone, batches of 64", "within FedNER"]


@pytest.mark.parametrize("scope", fedner_2020.SCOPES)
def test_no_promise_is_drawn_where_there_is_no_noise(scope: str) -> None:
    text = drawing(PARTS, "Word vectors", scope, each_step=scope != fedner_2020.PLATFORM)
    assert ("No promise" in text) == (scope == fedner_2020.NOBODY)
    assert ("that is its ε" in text) == (scope != fedner_2020.NOBODY)
    assert ("noise" in text) == (scope != fedner_2020.NOBODY)
    assert ("in <b>all</b> of its tagger" in text) == (scope == fedner_2020.SENTENCE)
    assert text.count("stays</b>") == text.count("leaves ⇢</b>") == 1
    assert "77,312 weights, 0.31 MB" in text


def test_who_shares_nothing_sends_nothing_and_who_shares_all_has_common_types() -> None:
    alone = drawing([replace(part, leaves=False) for part in PARTS], "Word vectors", fedner_2020.NOBODY, each_step=True)
    assert "Nothing. Each hospital learns alone." in alone
    assert "leaves ⇢" not in alone
    every = drawing([replace(part, leaves=True) for part in PARTS], "Word vectors", fedner_2020.NOBODY, each_step=True)
    assert "Its entity types are known to all" in every
    assert "Scores of the entity types of all" in every


def test_hospitals_that_part_send_nothing_from_then_on() -> None:
    parted = {
        scope: drawing(PARTS, "Word vectors", scope, each_step=True, together=0.6) for scope in fedner_2020.SCOPES[:2]
    }
    for scope, text in parted.items():
        assert "That ends after <b>60 % of the steps</b>" in text
        assert ("ε counts them" in text) == (scope == fedner_2020.SENTENCE)
    assert "That ends" not in drawing(PARTS, "Word vectors", fedner_2020.NOBODY, each_step=True)
    nothing = [replace(part, leaves=False) for part in PARTS]
    assert "That ends" not in drawing(nothing, "Word vectors", fedner_2020.NOBODY, each_step=True, together=0.6)


def test_before_anything_was_run_the_printed_numbers_are_there_and_the_corpora_can_be_fetched(
    open_page, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = open_page("medical")
    said = "\n".join(element.value for element in (*empty.markdown, *empty.caption, *empty.info))
    assert messages.NOT_RUN in said
    assert said.count(fedner.NOTHING_YET) == len(fedner_2020.TABLES)
    assert "The medical corpora are not on this machine yet" in said
    assert len(empty.dataframe) == len(fedner_2020.TABLES)
    assert empty.dataframe[0].value["printed strict"].tolist()[0] == pytest.approx(61.46)
    fetched: list[str] = []
    monkeypatch.setattr(CorpusService, "download", lambda self, name, progress: fetched.append(name))
    next(button for button in empty.button if button.label.startswith("Fetch ADE")).click().run()
    assert fetched == list(fedner_2020.PLATFORMS)


def test_what_is_chosen_is_run_together_and_without_the_others(
    open_page, settings: Settings, data_dir, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page("medical", replace(settings, data_dir=data_dir))
    asked: list[list[SimulationConfig]] = []
    monkeypatch.setattr(RunService, "submit_all", lambda self, configs, owner_pid: asked.append(list(configs)))
    monkeypatch.setattr(RunQueries, "find", lambda self, config: None)  # from the second look on: hundreds each time
    next(button for button in page.button if button.label == "Run both").click().run()
    said = "\n".join(caption.value for caption in page.caption)
    assert re.search(r"[1-9]\d* of 12,4\d\d training sentences are left out: another hospital has the same one", said)
    (together, alone) = asked[0]
    assert together.platforms == ("ade@0", "psytar@0", "bc5cdr")
    assert (together.federation.shared, alone.federation.shared) == ("hidden", NOTHING)
    assert not together.privacy.private
    next(toggle for toggle in page.toggle if "goes on alone" in toggle.label).set_value(True).run()
    next(button for button in page.button if button.label == "Run both").click().run()
    together, alone = asked.pop()
    assert (together.federation.together, alone.federation.together) == (fedner_2020.TOGETHER, 1)
    next(box for box in page.selectbox if box.label == "Noise protects").set_value(fedner_2020.PLATFORM).run()
    next(button for button in page.button if button.label == "Run both").click().run()
    together, alone = asked[1]
    assert together.privacy.mechanism == "secure-sum"
    assert not alone.privacy.private  # nothing leaves
    next(box for box in page.selectbox if box.label == "They share").set_value(NOTHING).run()
    next(button for button in page.button if button.label == "Run").click().run()
    assert [config.privacy.private for config in asked[2]] == [False]
    page.multiselect[0].set_value(["ade"]).run()
    assert any("Choose at least two" in info.value for info in page.info)


def test_where_all_is_done_the_page_says_what_brings_the_button_back(
    open_page, settings: Settings, data_dir, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: set[str] = set()

    def find(self: Application, config: SimulationConfig) -> Run | None:
        return run(config, dict.fromkeys(config.platforms, 5)) if config.federation.shared in done else None

    monkeypatch.setattr(RunQueries, "find", find)
    for shared, offered in (("hidden", ["Run"]), (NOTHING, [])):
        done.add(shared)
        page = open_page("medical", replace(settings, data_dir=data_dir))
        assert [button.label for button in page.button if button.label in ("Run", "Run both")] == offered
        said = "\n".join(caption.value for caption in page.caption)
        assert ("Both runs of this choice are done" in said) == (not offered)


def test_what_noise_on_what_is_sent_alone_is_worth_is_told_as_it_was_measured(open_page, settings: Settings) -> None:
    kept = Application(replace(settings, published=REPOSITORY / "cached_results")).queries.measurements()["trap"]
    said = messages.trap(kept)
    assert f"**{kept.values['trap']['right']} of {kept.values['trials']}** trials" in said
    assert kept.values["trap"]["moved_most"] > 10 > 1.01 > kept.values["honest"]["moved_most"]
    assert kept.values["trap"]["right"] / kept.values["trials"] > kept.values["right_at_most"]


def test_what_a_hospital_spends_is_what_it_spends_together_whatever_it_learns_alone() -> None:
    """Whole hospitals protected: alone nothing is sent, so the other run has no noise and ε = ∞."""
    together = fedner_2020.live(list(fedner_2020.PLATFORMS), fedner_2020.SMALL, "hidden", fedner_2020.PLATFORM)
    both = [together, fedner_2020.without_the_others(together)]
    runs = [_spending(config, epsilon) for config, epsilon in zip(both, (28.4, math.inf), strict=True)]
    for known in (runs, runs[:1]):
        rows = live._ends([*known, *[None] * (2 - len(known))], both)
        assert [row["ε together"] for row in rows] == ["28.4"] * 3
    assert [set(row) for row in live._ends(runs, both)] == [
        {"hospital", "F1 together", "F1 without the others", "ε together"}
    ] * 3
    assert not any("ε together" in row for row in live._ends([None, runs[1]], both))


def _spending(config: SimulationConfig, epsilon: float) -> Run:
    made = run(config, dict.fromkeys(config.platforms, 5))
    (last,) = made.records
    each = [replace(one, privacy=replace(one.privacy, epsilon=epsilon)) for one in last.platforms]
    return replace(made, records=(replace(last, platforms=tuple(each)),))
