"""Page Replication of FedNER 2020, without a browser: its text follows from the runs and from the chosen settings."""

import math
import re
from dataclasses import replace

import pytest

from engine.config import NOTHING, SimulationConfig
from engine.experiments import shared_parameters
from engine.experiments.papers import fedner_2020, fedner_2020_scores
from engine.records import Run
from engine.reports import fedner
from engine.service import Application
from engine.service.corpus_service import CorpusService
from engine.service.run_queries import RunQueries
from engine.service.run_service import RunService
from engine.settings import Settings
from pages.medical import charts, live, messages, tables
from pages.medical.data_flow_diagram import diagram
from tests.engine.experiments.papers.test_fedner_2020 import run
from tests.pages.reading import open_tab

PARTS = [shared_parameters.Part("hidden", 77_312, leaves=True), shared_parameters.Part("scores", 666, leaves=False)]


def table_2_runs(together: int, as_often: int, alone: int) -> dict[SimulationConfig, Run]:
    """Return runs of Table 2 with so many of 10 entities correct, and one more with each seed."""
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


def measured(known: dict[SimulationConfig, Run]) -> list[fedner_2020_scores.Row]:
    return [fedner_2020_scores.measure(cell, known.get) for cell in fedner_2020.cells()]


def test_answer_states_the_gain_of_sharing() -> None:
    assert messages.answer(measured({})) == messages.NOT_RUN
    gained = messages.answer(measured(table_2_runs(6, 5, 3)))
    assert "ADE +10.0, PsyTAR +10.0, BC5CDR +10.0" in gained
    assert "3 seeds" in gained
    assert "gain" in gained
    lost = messages.answer(measured(table_2_runs(4, 5, 3)))
    assert "ADE −10.0" in lost
    assert "loss" in lost
    known = table_2_runs(6, 5, 3)
    one = {config: made for config, made in known.items() if not config.seed}
    alone = messages.answer(measured(one))
    assert "ADE +10.0, PsyTAR +10.0" in alone
    assert "one seed" in alone
    known = table_2_runs(5, 5, 3)
    mixed = {config: made for config, made in known.items() if config.seed or config.federation.shared != NOTHING}
    assert "over 2 seeds" in messages.answer(measured(mixed))


def test_rows_are_in_per_cent_with_reported_scores() -> None:
    here = [row for row in measured(table_2_runs(6, 5, 3)) if row.cell.table == "table2" and row.cell.platform == "ade"]
    rows_by_method = {row["method"]: row for row in tables.rows(here)}
    assert rows_by_method["FedNER"]["strict F1"] == pytest.approx(70)
    assert rows_by_method["FedNER"]["reported strict"] == pytest.approx(82.57)
    assert rows_by_method["FedNER"]["seeds"] == "3"
    elsewhere = [row for row in measured({}) if row.cell.table == "table2" and row.cell.platform == "psytar"]
    assert not any(name.startswith("reported") for row in tables.rows(elsewhere) for name in row)
    assert rows_by_method["CNN-CRF, alone, batches of 64"]["strict F1"] is None
    gains = tables.gains(here)
    assert {row["compared with"]: round(row["gain, points"]) for row in gains} == {
        fedner_2020.title(fedner_2020.ALONE): 30,
        fedner_2020.title(fedner_2020.ALONE_AS_OFTEN): 10,
    }


def test_chart_has_a_trace_for_each_training_method_and_reported_scores() -> None:
    rows = [row for row in measured(table_2_runs(6, 5, 3)) if row.cell.platform == "ade"]
    names = {}
    for table in fedner_2020.TABLES:
        here = [row for row in rows if row.cell.table == table]
        names[table] = [trace.name for trace in charts.f1_chart(here, table, charts.STRICT, key=table).data]
    three = ["alone, batches of 64", "alone, same number of updates", "FedNER"]
    assert names["table2"] == [*three, "reported"]
    assert names["figure3"] == [*three, "reported"]
    assert names["figure4"] == ["FedNER"]
    assert names["figure5"] == three[1:]
    assert names["figure6"] == ["alone, batches of 64", "FedNER"]


@pytest.mark.parametrize("scope", fedner_2020.SCOPES)
def test_diagram_without_noise_claims_no_privacy_guarantee(scope: str) -> None:
    text = diagram(PARTS, "Word vectors", scope, each_step=scope != fedner_2020.PLATFORM)
    assert ("No privacy guarantee" in text) == (scope == fedner_2020.UNPROTECTED)
    assert ("ε bounds what" in text) == (scope != fedner_2020.UNPROTECTED)
    assert ("noise" in text) == (scope != fedner_2020.UNPROTECTED)
    assert ("over <b>all</b> layers" in text) == (scope == fedner_2020.SENTENCE)
    assert text.count("private</b>") == text.count("shared ⇢</b>") == 1
    assert "77,312 weights, 0.31 MB" in text


def test_diagram_follows_the_shared_layers() -> None:
    alone = diagram(
        [replace(part, leaves=False) for part in PARTS], "Word vectors", fedner_2020.UNPROTECTED, each_step=True
    )
    assert "Nothing. Each silo trains alone." in alone
    assert "shared ⇢" not in alone
    every = diagram(
        [replace(part, leaves=True) for part in PARTS], "Word vectors", fedner_2020.UNPROTECTED, each_step=True
    )
    assert "All silos share one set of entity types" in every
    assert "Scores of all silos' entity types" in every


def test_diagram_states_when_sharing_ends() -> None:
    parted = {
        scope: diagram(PARTS, "Word vectors", scope, each_step=True, together=0.6) for scope in fedner_2020.SCOPES[:2]
    }
    for scope, text in parted.items():
        assert "Sharing ends after <b>60 % of the steps</b>" in text
        assert ("ε counts them" in text) == (scope == fedner_2020.SENTENCE)
    assert "Sharing ends" not in diagram(PARTS, "Word vectors", fedner_2020.UNPROTECTED, each_step=True)
    nothing = [replace(part, leaves=False) for part in PARTS]
    assert "Sharing ends" not in diagram(nothing, "Word vectors", fedner_2020.UNPROTECTED, each_step=True, together=0.6)


def test_without_runs_the_page_shows_reported_scores_and_offers_the_corpora(
    open_page, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = open_page("medical")
    text = "\n".join(element.value for element in (*empty.markdown, *empty.caption, *empty.info))
    assert messages.NOT_RUN in text
    assert "The medical corpora are not installed on this machine yet" in text
    downloaded: list[str] = []
    monkeypatch.setattr(CorpusService, "download", lambda self, name, progress: downloaded.append(name))
    next(button for button in empty.button if button.label.startswith("Download ADE")).click().run()
    assert downloaded == list(fedner_2020.PLATFORMS)
    for tab in [tab.label for tab in empty.tabs][1:]:
        open_tab(empty, "medical_tab", tab)
        assert fedner.NOTHING_YET in "\n".join(element.value for element in empty.markdown)
        assert len(empty.dataframe) == 1
        if tab == "Table 2":
            assert empty.dataframe[0].value["reported strict"].tolist()[0] == pytest.approx(61.46)


def test_choices_stay_while_another_tab_is_open(open_page, settings: Settings, data_dir) -> None:
    test = open_page("medical", replace(settings, data_dir=data_dir))
    (scope,) = (box for box in test.selectbox if box.label == "Privacy unit")
    scope.select_index(1).run()
    chosen = next(box.value for box in test.selectbox if box.label == "Privacy unit")
    assert chosen != fedner_2020.SCOPES[0]
    open_tab(test, "medical_tab", "Table 2")
    next(each for each in test.segmented_control if each.key == "platform-table2").set_value("psytar").run()
    open_tab(test, "medical_tab", "Figure 3")
    assert "platform-table2" not in [each.key for each in test.segmented_control]
    open_tab(test, "medical_tab", "Table 2")
    assert next(each.value for each in test.segmented_control if each.key == "platform-table2") == "psytar"
    assert next(box.value for box in test.selectbox if box.label == "Privacy unit") == chosen
    assert not test.exception


@pytest.mark.repeats(area="pages")
def test_chosen_settings_start_a_federated_run_and_a_run_alone(
    open_page, settings: Settings, data_dir, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page("medical", replace(settings, data_dir=data_dir))
    submitted: list[list[SimulationConfig]] = []
    monkeypatch.setattr(
        RunService, "submit_all", lambda self, configs, owner_pid, unprotected: submitted.append(list(configs))
    )
    monkeypatch.setattr(
        RunQueries, "find", lambda self, config: None
    )  # faster: each rerun of the script looks up hundreds of runs
    next(button for button in page.button if button.label == "Start both runs").click().run()
    text = "\n".join(caption.value for caption in page.caption)
    assert re.search(r"[1-9]\d* of 12,4\d\d training sentences are left out: another silo has the same sentence", text)
    (together, alone) = submitted[0]
    assert together.platforms == ("ade@0", "psytar@0", "bc5cdr")
    assert (together.federation.shared, alone.federation.shared) == ("hidden", NOTHING)
    assert not together.privacy.private
    next(toggle for toggle in page.toggle if "Train alone after" in toggle.label).set_value(True).run()
    next(button for button in page.button if button.label == "Start both runs").click().run()
    together, alone = submitted.pop()
    assert (together.federation.together, alone.federation.together) == (fedner_2020.TOGETHER, 1)
    next(box for box in page.selectbox if box.label == "Privacy unit").set_value(fedner_2020.PLATFORM).run()
    next(button for button in page.button if button.label == "Start both runs").click().run()
    together, alone = submitted[1]
    assert together.privacy.mechanism == "secure-sum"
    assert not alone.privacy.private  # it sends nothing
    next(box for box in page.selectbox if box.label == "Shared layers").set_value(NOTHING).run()
    next(button for button in page.button if button.label == "Start run").click().run()
    assert [config.privacy.private for config in submitted[2]] == [False]
    page.multiselect[0].set_value(["ade"]).run()
    assert any("Choose at least two" in info.value for info in page.info)


def test_finished_runs_replace_the_button_by_a_note(
    open_page, settings: Settings, data_dir, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: set[str] = set()

    def find(self: Application, config: SimulationConfig) -> Run | None:
        return run(config, dict.fromkeys(config.platforms, 5)) if config.federation.shared in done else None

    monkeypatch.setattr(RunQueries, "find", find)
    for shared, offered in (("hidden", ["Start run"]), (NOTHING, [])):
        done.add(shared)
        page = open_page("medical", replace(settings, data_dir=data_dir))
        labels = ("Start run", "Start both runs")
        assert [button.label for button in page.button if button.label in labels] == offered
        text = "\n".join(caption.value for caption in page.caption)
        assert ("Both runs with these settings are finished" in text) == (not offered)


def test_attack_on_partial_noise_shows_its_measurement(open_page, with_published: Settings) -> None:
    measurement = Application(with_published).queries.measurements()["trap"]
    text = messages.partial_noise_attack(measurement)
    assert f"**{measurement.values['trap']['right']} of {measurement.values['trials']}** trials" in text
    assert measurement.values["trap"]["moved_most"] > 10 > 1.01 > measurement.values["honest"]["moved_most"]
    assert measurement.values["trap"]["right"] / measurement.values["trials"] > measurement.values["right_at_most"]


def test_epsilon_of_a_silo_is_that_of_the_federated_run() -> None:
    """With silo-level privacy a run alone sends nothing, so it has no noise and ε = ∞."""
    together = fedner_2020.live(list(fedner_2020.PLATFORMS), fedner_2020.SMALL, "hidden", fedner_2020.PLATFORM)
    both = [together, fedner_2020.without_the_others(together)]
    runs = [_spending(config, epsilon) for config, epsilon in zip(both, (28.4, math.inf), strict=True)]
    for known in (runs, runs[:1]):
        rows = live._ends([*known, *[None] * (2 - len(known))], both)
        assert [row["ε federated"] for row in rows] == ["28.4"] * 3
    assert [set(row) for row in live._ends(runs, both)] == [{"silo", "F1 federated", "F1 alone", "ε federated"}] * 3
    assert not any("ε federated" in row for row in live._ends([None, runs[1]], both))


def _spending(config: SimulationConfig, epsilon: float) -> Run:
    made = run(config, dict.fromkeys(config.platforms, 5))
    (last,) = made.records
    each = [replace(one, privacy=replace(one.privacy, epsilon=epsilon)) for one in last.platforms]
    return replace(made, records=(replace(last, platforms=tuple(each)),))
