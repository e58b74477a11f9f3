"""Page Explore, without a browser."""

import contextlib
import dataclasses
import statistics
from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

import pytest
import streamlit as st
from streamlit.proto.RootContainer_pb2 import RootContainer

from engine import corpus
from engine.cluster import supervisor
from engine.config import MINILM, PrivacyConfig, SimulationConfig, TaggerConfig, engine_version, run_id, with_noise
from engine.config.encoder_registry import E5, MPNET
from engine.embeddings import contamination
from engine.records import PlatformRecord, Run, RunState, RunStatus
from engine.reports.scores import f1_text
from engine.service import Application
from engine.service.corpus_service import CorpusService
from engine.service.preview_service import PreviewService
from engine.service.run_service import RunService
from engine.settings import REPOSITORY
from engine.store import published
from pages.explore import charts, controls, curves
from pages.shared import address, session, submitting, titles
from tests.engine.factories import SMALL, provenance, record
from tests.pages.reading import figures, open_tab


@pytest.fixture
def published_settings(trained_settings):
    """Return settings with a home of its own and the published results of the repository."""
    return dataclasses.replace(trained_settings, published=REPOSITORY / "cached_results")


@pytest.fixture
def page(open_page, published_settings):
    """Return a function that opens the page with fields of the address."""
    return lambda settings=published_settings, **fields: open_page(settings=settings, **fields)


def open_vary(test) -> None:
    """Open the popover with buttons for several runs."""
    test.session_state["vary"] = True
    test.run()


def texts(elements) -> str:
    return (
        "\n".join(element.value for element in elements).replace("\\", "").replace("\u00a0", " ").replace("\u2060", "")
    )


@pytest.fixture
def published_run(published_index) -> Callable[[SimulationConfig], Run]:
    """Return a function that returns the published run of a configuration."""
    results = published.read_all(REPOSITORY / "cached_results", published_index).today

    def find(config: SimulationConfig) -> Run:
        (run,) = (run for run in results.runs if run.config == config)
        return run

    return find


class TestPretrainedWeights:
    INPUTS: ClassVar = {"tagger": "linear-crf", "features": "layer-names", "window": "1"}

    def test_switch_is_in_the_link_and_in_the_command(self, page):
        test = page(**self.INPUTS)
        switch = test.toggle(key="pretrained")
        assert not switch.disabled
        assert "pretrained" not in test.query_params
        switch.set_value(True).run()
        assert not test.exception
        assert test.query_params["pretrained"] == "yes"
        open_tab(test, "details", "Download and repeat")
        assert "--pretrained" in test.code[0].value
        assert page(**self.INPUTS, pretrained="yes").toggle(key="pretrained").value

    @pytest.mark.parametrize(
        ("key", "value"), [("tagger", "linear-softmax"), ("features", "names"), ("scheme", "bioes")]
    )
    def test_switch_has_no_effect_where_there_are_no_public_weights(self, page, key, value):
        test = page(**self.INPUTS, pretrained="yes")
        test.selectbox(key=key).set_value(value).run()
        assert not test.error
        assert test.toggle(key="pretrained").disabled
        assert "pretrained" not in test.query_params

    def test_epsilon_is_shown_without_the_corpus(self, page):
        """Its types are checked when its sentences are there."""
        test = page(**self.INPUTS, pretrained="yes", corpus="conll2003")
        assert not test.error
        assert "Planned: ε = **0.762**" in texts(test.markdown)

    def test_corpus_without_a_known_type_shows_an_error(self, page, published_settings, data_dir):
        settings = dataclasses.replace(published_settings, data_dir=data_dir)
        test = page(settings, **self.INPUTS, pretrained="yes", corpus="ncbi_disease")
        assert "the public weights only recognise LOC, MISC, ORG, PER" in texts(test.error)
        assert not test.exception


class TestOwnLanguageModel:
    OWN = "bert-12x768-0123456789abcdef"

    def test_installed_model_can_be_selected_and_is_in_the_link(self, page, monkeypatch):
        monkeypatch.setattr(CorpusService, "language_models", lambda self: [MINILM, TestOwnLanguageModel.OWN])
        test = page(features="contextual")
        test.selectbox(key="language_model").set_value(self.OWN).run()
        assert not test.exception
        assert test.query_params["language_model"] == self.OWN
        open_tab(test, "details", "Download and repeat")
        assert f"--language-model {self.OWN}" in test.code[0].value
        test.selectbox(key="features").set_value("shapes").run()
        assert not test.error
        assert "language_model" not in test.query_params

    def test_link_to_a_missing_model_fails_at_the_run(self, page):
        test = page(features="contextual", language_model=self.OWN, seed="5")
        assert test.selectbox(key="language_model").value == self.OWN
        next(button for button in test.button if button.label == "Run").click().run()
        assert f"language_model='{self.OWN}' is not available" in texts(test.error)
        assert "language_model" not in [box.key for box in page(features="contextual").selectbox]

    def test_unusable_model_shows_an_error(self, page, published_settings, tmp_path):
        test = page(dataclasses.replace(published_settings, language_model=tmp_path), features="contextual")
        assert "config.json is missing" in texts(test.error)
        assert not test.exception


def test_new_clients_get_sentences_independently_and_the_paper_has_equal_sizes(page):
    test = page()
    assert "partition" not in test.query_params
    test.select_slider(key="clients").set_value(5).run()
    assert not test.exception
    assert test.query_params["partition"] == "independent"
    assert "one sentence is added or removed" in texts(test.markdown) + texts(test.caption)
    next(button for button in test.button if button.label == "Paper settings").click().run()
    assert test.selectbox(key="partition").value == "random"
    assert "partition" not in test.query_params
    assert page(clients="5").selectbox(key="partition").value == "random"


class TestRecommendedSettings:
    @pytest.fixture(autouse=True)
    def mpnet(self, monkeypatch):
        monkeypatch.setattr(controls, "has_mpnet", lambda: True)

    @staticmethod
    def chosen(test) -> tuple[str, bool]:
        test.button(key="good-3").click().run()
        assert not test.exception
        fields = test.query_params
        assert fields["learning_rate"] == "0.05"
        assert fields.get("epochs", "10") == ("20" if fields.get("language_model") else "10")
        return fields.get("language_model", MINILM), fields.get("pretrained") == "yes"

    def test_use_the_larger_model_and_public_weights(self, page):
        test = page()
        assert self.chosen(test) == (MPNET, True)
        assert "0.9" in texts(test.markdown)
        test.session_state["recommended_language_model"] = MINILM
        assert self.chosen(test) == (MINILM, False)

    def test_do_not_start_from_weights_for_other_types(self, page):
        assert self.chosen(page(corpus="bc5cdr")) == (MPNET, False)

    def test_have_the_smaller_model_where_the_larger_one_is_missing(self, page, monkeypatch):
        monkeypatch.setattr(controls, "has_mpnet", lambda: False)
        test = page()
        assert "MPNet, a larger language model that is not installed here" in texts(test.caption)
        assert self.chosen(test) == (MINILM, False)

    def test_have_a_model_for_other_languages(self, page, monkeypatch):
        monkeypatch.setattr(controls, "has", lambda name: name == E5)
        test = page()
        assert self.chosen(test) == (MPNET, True)
        test.session_state["recommended_language_model"] = E5
        assert self.chosen(test) == (E5, False)
        assert test.query_params["features"] == "layer"
        monkeypatch.setattr(controls, "has_mpnet", lambda: False)
        assert self.chosen(page()) == (MINILM, False)


def test_overlap_of_corpus_and_features_shows_a_warning(page, published_settings, monkeypatch):
    loaded = corpus.resolve("synthetic", published_settings).load()
    monkeypatch.setattr(
        contamination,
        "fitted_on",
        lambda part: contamination.checksums(s.tokens for s in (*loaded.train, *loaded.test)),
    )
    test = page(features="contextual")
    warned = texts(test.warning)
    assert "4,400 of 4,400 training sentences (100.0%) are among those of Wikigold" in warned
    assert "1,000 of 1,000 test sentences (100.0%)" in warned
    assert "Planned: ε = **∞**" in texts(test.markdown)
    assert "4,400 of 4,400 training sentences" in texts(test.markdown)  # a phone hides the sidebar
    assert not page(features="shapes").warning


@pytest.mark.repeats(area="pages")
def test_link_to_silos_shows_a_row_for_each(page, trained_settings, tmp_path):
    from engine.cluster.worker import compute
    from engine.store.run_store import RunStore

    conll = "# entity types: Drug\n" + "".join(
        f"Take O\n{name} B-Drug\n\n" for name in ("Aspirin", "Zinc", "Iron", "Salt") * 10
    )
    app = Application(trained_settings)
    own, _ = app.corpora.add("drugs.conll", conll.encode())
    config = SimulationConfig.from_flat(
        {"corpus": f"synthetic + {own}", "rounds": 2, "epochs": 1.0, "data_fraction": 0.2, "hidden_size": 8}
    )
    config = dataclasses.replace(config, training=dataclasses.replace(config.training, batch_size=8))
    identity = app.queries.identity(config)
    RunStore(trained_settings.store_url).submit(identity, config, app.queries.corpus(config).checksum)
    compute(identity, trained_settings, "here")
    test = page(settings=trained_settings, **address.write(config))
    assert not test.exception
    assert "2 clients (silos), each with its own corpus and entity types" in texts(test.caption)
    open_tab(test, "details", "Clients")
    (table,) = (frame.value for frame in test.dataframe if "Noise check" in frame.value.columns)
    assert table["Client"].tolist() == ["Letters and notes (synthetic)", "drugs"]
    assert table["Entity types"].tolist() == ["DATE, LOC, ORG, PER", "Drug"]
    assert table["Noise check"].tolist() == ["passed", "passed"]
    test.selectbox(key="corpus").select("synthetic").run()
    assert not test.exception
    assert "silos" not in texts(test.caption)


def test_run_without_noise_on_a_budget_needs_a_checkbox(page, trained_settings, monkeypatch):
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    app = Application(trained_settings)
    app.budgets.set_total("synthetic", 2.0)
    config = with_noise(SimulationConfig(seed=7), 0.0)
    test = page(settings=trained_settings, **address.write(config))
    assert "accept an unprotected access" in texts(test.caption)
    test.button(key="run").click().run()
    assert "no privacy guarantee" in texts(test.error)
    assert app.queries.find(config) is None
    test.checkbox(key="unprotected").check().run()
    test.button(key="run").click().run()
    assert not test.error
    assert app.queries.find(config).status.state == RunState.QUEUED
    assert not app.budgets.state("synthetic").holds
    test = page(settings=trained_settings, **address.write(with_noise(config, 8.0)))
    assert "The total of Letters and notes (synthetic) no longer holds" in texts(test.caption)
    assert "unprotected" not in [each.key for each in test.checkbox]
    app.close()


def test_undeclared_entity_types_are_not_claimed(page, trained_settings):
    corpora = trained_settings.home / "corpora"
    corpora.mkdir()
    (corpora / "my-old.conll").write_text("".join(f"Ada B-PER\nsings O\n{n} O\n\n" for n in range(40)))
    fields = {"corpus": "my-old", "batch_size": "4", "epochs": "1", "noise_multiplier": "4"}
    assert "entity types: not claimed" in texts(page(settings=trained_settings, **fields).caption)
    (corpora / "my-old.conll").write_text("# entity types: PER\n" + (corpora / "my-old.conll").read_text())
    assert "not claimed" not in texts(page(settings=trained_settings, **fields).caption)


class TestMissingSiloCorpora:
    """Links to runs on corpora that are not installed."""

    LINK = SimulationConfig.from_flat({"corpus": "ade@0 + psytar@0 + bc5cdr", "rounds": 2})

    @pytest.fixture
    def opened(self, page, trained_settings):
        return lambda config=self.LINK: page(settings=trained_settings, **address.write(config))

    @staticmethod
    def publish(config: SimulationConfig, folder) -> Run:
        records = [
            dataclasses.replace(
                whole,
                platforms=tuple(
                    PlatformRecord(name=name, privacy=whole.privacy, scores=whole.scores, test=whole.test)
                    for name in names
                ),
            )
            for names in [config.platforms]
            for whole in (record(number) for number in range(3))
        ]
        run_provenance = provenance(engine_version=engine_version(config))
        identity = run_id(config, run_provenance.corpus_checksum, run_provenance.engine_version)
        run = Run(
            run_id=identity,
            config=config,
            status=RunStatus(run_id=identity, state=RunState.DONE),
            records=tuple(records),
            provenance=run_provenance,
        )
        published.write(run, folder)
        return run

    @pytest.mark.parametrize("corpus", [LINK.corpus, "ade@3", "synthetic + ade@0"])
    def test_published_run_is_shown_with_a_notice(self, opened, trained_settings, corpus):
        config = SimulationConfig.from_flat({"corpus": corpus, "rounds": 2})
        run = self.publish(config, trained_settings.published)
        test = opened(config)
        assert not test.error
        result, notice = texts(test.markdown), texts(test.info)
        open_tab(test, "details", "Numbers")
        assert "At ε = 1.5 (δ = 1e-5): recall 67 %" in result
        assert "Published: ε = **1.5**" in result
        assert "corpus='ade' is not available yet: download it first (python -m engine fetch ade)" in notice
        assert "the published run. It cannot be verified" in notice
        assert "New runs need the corpora" in notice
        table = next(frame.value for frame in test.dataframe if "loss" in frame.value.columns)
        assert table["seconds"].tolist()[:3] == [each.seconds for each in run.records]
        open_tab(test, "details", "Clients")
        for platform in config.platforms:
            assert any(titles.corpus(platform) in str(frame.value) for frame in test.dataframe)
        test.session_state["promise"] = True
        assert not test.run().exception

    def test_shuffled_run_has_a_warning(self, opened, trained_settings):
        privacy = dataclasses.replace(self.LINK.privacy, sampling="shuffle")
        config = dataclasses.replace(self.LINK, privacy=privacy)
        self.publish(config, trained_settings.published)
        assert "assumes Poisson sampling, which was not used" in texts(opened(config).warning)

    def test_missing_corpora_are_listed_and_can_be_downloaded(self, opened, trained_settings, monkeypatch):
        downloaded = []
        monkeypatch.setattr(CorpusService, "download", lambda self, name: downloaded.append(name))
        test = opened()
        (error,) = texts(test.error).splitlines()
        for name in ("ade", "psytar", "bc5cdr"):
            assert f"corpus='{name}' is not available yet: download it first (python -m engine fetch {name})" in error
        button = next(button for button in test.button if button.label.startswith("Download"))
        assert button.label.startswith("Download ADE")
        assert button.label.endswith("(5.3 MB)")
        button.click().run()
        assert downloaded == ["ade", "psytar", "bc5cdr"]

    def test_licensed_corpus_names_its_files(self, opened):
        test = opened(SimulationConfig(corpus="conll2003 + wnut17"))
        assert "put eng.train, eng.testa, eng.testb in" in texts(test.error)
        assert "put eng.train" in texts(test.caption)

    def test_spinner_of_the_corpus_comparison_is_in_the_main_part(self, opened, monkeypatch):
        """A phone hides the sidebar, and the first comparison of real corpora takes seconds."""
        spinners = []

        @contextlib.contextmanager
        def spinner(text, **_):
            spinners.append((text, st.empty()._root_container))
            yield

        monkeypatch.setattr(session, "read_published", lambda: None)  # it has a spinner too
        monkeypatch.setattr(st, "spinner", spinner)
        opened(SimulationConfig(corpus="ade + psytar"))
        (main,) = (text for text, container in spinners if container == RootContainer.MAIN)
        assert "sentences of all clients" in main


class TestSeveralSeeds:
    """Runs of five seeds, which the button queues and the test computes."""

    CONFIG = SimulationConfig.from_flat(
        {"tagger": "linear-crf", "data_fraction": 0.1, "noise_multiplier": 0.1, "optimiser": "adam"}
        | {"epochs": 2.0, "learning_rate": 0.01}
    )

    @pytest.fixture
    def queued(self, page, trained_settings, monkeypatch):
        """Return the page after a click on the button, and the queued configurations."""
        monkeypatch.setattr("engine.cluster.supervisor.ensure_cluster", lambda *_: None)
        test = page(settings=trained_settings, **address.write(self.CONFIG))
        assert "Not run yet" in texts(test.markdown)
        open_vary(test)
        test.button(key="seeds").click().run()
        return test, [dataclasses.replace(self.CONFIG, seed=seed) for seed in range(5)]

    @staticmethod
    def compute(settings, configs):
        from engine.cluster.worker import compute

        app = Application(settings)
        for config in configs:
            compute(app.queries.identity(config), settings, "here")
        return [app.queries.find(config).final.test for config in configs]

    @pytest.mark.repeats(area="pages")
    def test_progress_and_mean_of_several_seeds(self, queued, trained_settings):
        test, configs = queued
        assert "Queued (position 1)." in texts(test.markdown)
        assert "0 of 5 seeds (0, 1, 2, 3, 4) are done." in texts(test.markdown)
        middle = self.compute(trained_settings, configs[1:3])
        assert "2 of 5 seeds (0, 1, 2, 3, 4) are done: F1 " in texts(test.run().markdown)
        first, *last = self.compute(trained_settings, [configs[0], *configs[3:]])
        scores = [result.f1 for result in (first, *middle, *last)]
        mean, sd = statistics.fmean(scores), statistics.stdev(scores)
        assert sd > 0.001
        text = texts(test.run().markdown)
        assert f"F1 {mean:.2f} ± {sd:.2f}, 5 seeds." in text
        assert f"5 seeds (0, 1, 2, 3, 4): F1 {mean:.3f} ± {sd:.3f}" in text
        assert "ε is for one run" in text
        open_tab(test, "details", "Numbers")
        (table,) = (frame.value for frame in test.dataframe if "seed" in frame.value.columns)
        assert table["f1"].tolist() == scores
        assert not test.exception

    def test_chart_has_mean_and_standard_deviation(self):
        points = [curves.Point(1.5, 1.0, 0.5, 0.4, f1, "", ()) for f1 in (0.3, 0.4, 0.5)]
        figure = charts.utility_by_epsilon([], [], [], points, planned=1.5, key="k", running=False)
        (trace,) = (trace for trace in figure.data if trace.name == "F1, 3 seeds")
        assert trace.y == pytest.approx([0.4])
        assert trace.error_y.array == pytest.approx([0.1])
        alone = charts.utility_by_epsilon([], [], [], [], planned=1.5, key="k", running=False)
        assert not any("seeds" in (trace.name or "") for trace in alone.data)


def test_pinned_configuration_is_compared_with_the_current_one(page, published_run):
    first, second = (published_run(with_noise(SimulationConfig(), sigma)) for sigma in (1.0, 2.0))
    test = page()
    assert "Pinned" not in texts(test.markdown)
    test.button(key="pin").click().run()
    assert "Pinned" not in texts(test.markdown)  # the pinned configuration is the current one
    test.select_slider(key="noise_multiplier").set_value(2.0).run()
    before, after = first.final.test.f1, second.final.test.f1
    text = texts(test.markdown)
    assert after < before
    interval = f1_text(first.final.test, 3).replace("\u00a0", " ").replace("\u2060", "")
    assert interval.startswith(f"{before:.3f} (95 % CI: ")
    assert f"Pinned: F1 {interval} at" in text
    assert f"at ε = 1.51; F1 difference of this run: −{before - after:.3f}. Changed: σ 1 → 2." in text
    test.button(key="pin").click().run()
    test.button(key="unpin").click().run()
    test.select_slider(key="noise_multiplier").set_value(1.0).run()
    assert "Pinned" not in texts(test.markdown)
    assert not test.exception


class TestTargetEpsilon:
    @pytest.mark.parametrize(("fields", "sigma"), [({}, 1.2), ({"clients": 5, "rounds": 2}, 2.0)])
    def test_target_epsilon_sets_the_noise_multiplier(self, page, fields, sigma):
        test = page(**{name: str(value) for name, value in fields.items()})
        test.number_input(key="target_epsilon").set_value(1.0).run()
        noise = test.number_input(key="exact_noise").value
        assert noise > sigma
        assert "Planned: ε = **1**" in texts(test.markdown) or "By plan, ε will be **1.00**" in texts(test.markdown)
        assert test.query_params["noise_multiplier"] == f"{noise:.12g}"
        assert test.number_input(key="target_epsilon").value is None

    def test_unreachable_target_shows_an_error_and_changes_nothing(self, page):
        test = page(clients="5", mechanism="local")
        test.number_input(key="target_epsilon").set_value(1.0).run()
        assert "each message spends ε" in texts(test.error)
        assert test.number_input(key="exact_noise").value == 1.0


def test_landing_page_shows_the_published_run(page, published_run):
    run, test = published_run(SimulationConfig()), page()
    text = texts(test.markdown)
    assert f"At ε = 1.51 (δ = 1e-5): recall {100 * run.final.test.recall:.0f} %" in text
    assert "Without noise: F1 0.50" in text
    day = datetime.fromisoformat(run.provenance.created)
    assert f"Published result of {day.day} {day:%B %Y}" in texts(test.caption)
    assert "Synthetic corpus" in texts(test.caption)
    assert "Planned: ε = **1.51**" in text
    assert not [button for button in test.button if button.label == "Run"]
    assert not test.warning
    assert not test.error


def test_noise_check_lists_its_measurements(page):
    text = texts(page().markdown)
    assert "measures the noise of each of 1,375 steps" in text
    assert "| Noise on each weight, σ · C | 1.49" in text or "| Noise on each weight, σ · C | 1.5" in text
    assert "Limits of the check" in text
    assert "measures the noise of each" not in texts(page(noise_multiplier="0").markdown)


def test_crf_can_be_selected(page, published_run):
    chain = published_run(SimulationConfig(tagger=TaggerConfig(name="bilstm-crf")))
    test = page(tagger="bilstm-crf")
    assert f"recall {100 * chain.final.test.recall:.0f} %" in texts(test.markdown)
    assert "a CRF scores a sentence" in texts(test.caption)
    assert test.session_state.tagger == "bilstm-crf"


def test_contextual_tagger_requires_contextual_features(page):
    test = page(tagger="cnn-crf")
    assert test.selectbox(key="features").value == "vectors"
    test.selectbox(key="tagger").set_value("lm-ner").run()
    assert not test.exception
    assert test.selectbox(key="features").value == "contextual"
    assert len(test.selectbox(key="features").options) == 5
    assert not test.error


class TestSharedLayers:
    @pytest.fixture
    def two(self, page, trained_settings):
        """Return a function that opens the page with two silos."""
        conll = "# entity types: Drug\n" + "".join(
            f"Take O\n{name} B-Drug\n\n" for name in ("Aspirin", "Zinc", "Iron", "Salt") * 10
        )
        own, _ = Application(trained_settings).corpora.add("drugs.conll", conll.encode())
        fields = {"corpus": f"synthetic + {own}", "tagger": "cnn-clstm-crf", "schedule": "gradients", "clients": "2"}
        return lambda **more: page(settings=trained_settings, **fields, **more)

    def test_shared_layers_are_in_the_link_and_can_be_selected(self, two):
        test = two(shared="characters", dropout="0.2")
        choice = test.selectbox(key="shared")
        assert choice.options == [
            "all tag-independent layers",
            "none (separate training)",
            "characters",
            "characters, convolution",
            "characters, convolution, LSTM",
            "characters, convolution, LSTM, tag scores",
        ]
        assert choice.value == "characters"
        assert "2 clients, gradients at each step" in texts(test.caption)
        choice.set_value("characters,convolution").run()
        assert test.query_params["shared"] == "characters,convolution"
        assert test.query_params["dropout"] == "0.2"

    def test_layers_of_another_tagger_are_dropped(self, two):
        test = two(shared="characters,convolution")
        test.selectbox(key="tagger").set_value("bilstm-crf").run()
        assert not test.exception
        assert test.selectbox(key="shared").value is None
        assert "shared" not in test.query_params

    def test_link_may_set_a_tag_scheme_for_each_silo(self, two):
        test = two(scheme="bio2,bioes", dropout="0.2")
        choice = test.selectbox(key="scheme")
        assert choice.options == ["BIO2", "BIOES", "BIO2, BIOES"]
        assert choice.value == "bio2,bioes"
        test.number_input(key="dropout").set_value(0.3).run()
        assert test.query_params["scheme"] == "bio2,bioes"
        assert test.query_params["dropout"] == "0.3"
        test.selectbox(key="scheme").set_value("bioes").run()
        assert test.query_params["scheme"] == "bioes"
        test.selectbox(key="shared").set_value("characters,convolution,lstm,scores").run()
        assert not test.error
        test.selectbox(key="scheme").set_value("bio2,bioes").run()
        assert "scheme='bio2,bioes', expected one for all clients" in texts(test.error)
        test.selectbox(key="corpus").select("synthetic").run()
        assert not test.exception
        assert test.selectbox(key="scheme").options == ["BIO2", "BIOES"]
        assert test.selectbox(key="scheme").value == "bio2"

    def test_single_corpus_has_no_shared_layers(self, page):
        test = page(corpus="synthetic", clients="2")
        assert "shared" not in [box.key for box in test.selectbox]


def test_tag_scheme_can_be_selected(page):
    test = page()
    assert test.selectbox(key="scheme").options == ["BIO2", "BIOES"]
    assert "scheme" not in test.query_params
    test.selectbox(key="scheme").set_value("bioes").run()
    assert test.query_params["scheme"] == "bioes"
    assert not test.error


def test_link_may_select_a_split(page):
    test = page(corpus="wikigold@3")
    assert test.session_state.corpus == "wikigold@3"
    assert test.selectbox(key="corpus").options[-1].startswith("Wikigold, split 3")
    assert "is not in the catalogue of this dashboard" in texts(page(corpus="unknown@3").warning)


def test_published_run_of_a_missing_corpus_is_shown(page):
    test = page(corpus="conll2003")
    assert "At ε = 0.762 (δ = 1e-5): recall " in texts(test.markdown)
    assert "put eng.train" in texts(test.caption)


def test_new_configuration_has_a_run_button(page):
    test = page(seed="5")
    assert "Not run yet. Planned privacy cost: ε = 1.51" in texts(test.markdown)
    assert [button for button in test.button if button.label == "Run"]
    assert "4,400 sentences, 1,375 steps" in texts(test.caption)


def test_control_changes_result_and_link(page):
    test = page()
    test.select_slider(key="noise_multiplier").set_value(5.0).run()
    assert "At ε = 0.177" in texts(test.markdown)
    assert test.query_params["noise_multiplier"] == "5"
    next(button for button in test.button if button.label == "Reset to defaults").click().run()
    assert "At ε = 1.51" in texts(test.markdown)


def test_noise_multiplier_may_be_any_number(page):
    test = page()
    test.number_input(key="exact_noise").set_value(0.85).run()
    assert test.select_slider(key="noise_multiplier").value == 0.85
    assert test.query_params["noise_multiplier"] == "0.85"


def test_link_restores_the_configuration(page):
    test = page(noise_multiplier="2", corpus="synthetic")
    assert test.select_slider(key="noise_multiplier").value == 2.0
    assert "At ε = 0.52" in texts(test.markdown)


def test_invalid_link_shows_warnings_and_the_default(page):
    test = page(noise_multiplier="lots", corpus="/etc/passwd", surprise="![x](http://evil)", data_fraction="7")
    warnings = texts(test.warning)
    for part in ("noise_multiplier='lots'", "'/etc/passwd' is not in the catalogue", "'surprise'", "data_fraction=7.0"):
        assert part in warnings
    assert "At ε = 1.51" in texts(test.markdown)
    test.select_slider(key="noise_multiplier").set_value(2.0).run()
    assert not test.warning


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"batch_size": "5000"}, "batch_size=5,000, expected at most the 4,400 training sentences"),
        ({"data_fraction": "0.0001"}, "data_fraction=0.0001 leaves none of the 4,400 training sentences"),
    ],
)
def test_impossible_configuration_shows_an_error(page, fields, sentence):
    assert sentence in texts(page(**fields).error)


def test_too_large_delta_shows_a_warning(page):
    assert "delta=0.01 is not below 1/n" in texts(page(delta="0.01").warning)


def test_shuffled_batches_show_a_warning(page):
    test = page(sampling="shuffle")
    assert "assumes Poisson sampling, which was not used" in texts(test.warning)


class TestNoiseSource:
    def test_seeded_noise_is_noted_beside_epsilon(self, page):
        assert "noise seed (0) is public" in texts(page().markdown)
        assert "A simulation" not in texts(page(noise_multiplier="0").markdown)

    def test_system_noise_can_be_selected_and_is_in_the_link(self, page):
        test = page()
        test.selectbox(key="noise_source").set_value("system").run()
        assert not test.exception
        assert test.query_params["noise_source"] == "system"
        assert "noise from the operating system" in texts(test.caption)
        assert "A simulation" not in texts(test.markdown)
        assert "Not run yet" in texts(test.markdown)
        assert "operating system" in texts(test.markdown)
        open_tab(test, "details", "Download and repeat")
        assert "--noise-source system" in test.code[0].value
        test.select_slider(key="noise_multiplier").set_value(2.0).run()
        assert test.query_params["noise_source"] == "system"

    def test_link_restores_the_noise_source(self, page):
        assert page(noise_source="system").selectbox(key="noise_source").value == "system"
        assert "noise_source='dice'" in texts(page(noise_source="dice").warning)

    def test_cancelled_run_cannot_continue(self, page, trained_settings):
        from engine.store.run_store import RunStore

        config = dataclasses.replace(SMALL, privacy=dataclasses.replace(SMALL.privacy, noise_source="system"))
        store, checksum = RunStore(trained_settings.store_url), corpus.resolve("synthetic", trained_settings).checksum
        identity = run_id(config, checksum)
        store.submit(identity, config, checksum)
        store.append(store.claim(identity, "here"), record(0).without_private_values(clients=False))
        store.cancel(identity)
        store.close()
        test = page(settings=trained_settings, **address.write(config))
        assert not test.exception
        assert "noise keys were destroyed" in texts(test.caption)
        assert not {"Run", "Continue", "Retry"} & {button.label for button in test.button}


class TestOlderEngine:
    def test_outdated_run_is_labelled_and_can_be_rerun(self, page, engine_5_settings, monkeypatch):
        submitted = []
        monkeypatch.setattr(RunService, "submit", lambda self, config, owner_pid, unprotected: submitted.append(config))
        test = page(engine_5_settings)
        assert "engine 5 (outdated)" in texts(test.caption)
        assert "At ε = 1.51" in texts(test.markdown)
        assert not [button for button in test.button if button.label.startswith("Rerun this")]
        next(button for button in test.button if button.label == "Rerun with current engine").click().run()
        assert submitted == [SimulationConfig()]

    def test_its_noise_check_states_its_limits(self, page, engine_5_settings):
        text = texts(page(engine_5_settings).markdown)
        assert "Engine 5 checked" in text
        assert "batches above 64 sentences" in text
        assert "one in a million" not in text


def test_broken_published_file_is_skipped_with_a_warning(page, published_run, published_settings, tmp_path):
    folder = tmp_path / "results"
    published.write(published_run(SimulationConfig()), folder)
    (folder / "broken.json").write_text('{"format": 1')
    test = page(dataclasses.replace(published_settings, published=folder))
    assert "broken.json was skipped" in texts(test.warning)
    assert "At ε = 1.51" in texts(test.markdown)


def test_damaged_store_does_not_hide_published_runs(page, published_settings):
    (published_settings.home / "runs.sqlite").write_bytes(b"no database, but long enough to be looked at closely" * 30)
    test = page()
    assert "At ε = 1.51" in texts(test.markdown)
    assert "damaged" in texts(test.warning)


def test_run_without_word_vectors_shows_an_error(page, monkeypatch):
    monkeypatch.setattr("engine.embeddings.vectors._folder", lambda name: None)
    test = page(seed="5")
    next(button for button in test.button if button.label == "Run").click().run()
    assert "embeddings='en_core_web_md' is not installed" in texts(test.error)


def test_published_run_can_be_rerun(page, monkeypatch):
    submitted = []
    monkeypatch.setattr(
        RunService,
        "submit_all",
        lambda self, configs, again, owner_pid, unprotected: submitted.append((configs, again)),
    )
    test = page(noise_multiplier="0")
    open_vary(test)
    next(button for button in test.button if button.label == "Rerun this configuration (1 run)").click().run()
    ((configs, again),) = submitted
    assert again
    assert configs == [with_noise(SimulationConfig(), 0.0)]


def test_page_has_command_line_and_downloads(page):
    test = page()
    open_tab(test, "details", "Download and repeat")
    assert "python -m engine train --corpus synthetic" in test.code[0].value
    assert "PNG, click the camera" in texts(test.caption)
    open_tab(test, "details", "Numbers")
    assert len(test.dataframe) == 2
    assert len(test.dataframe[0].value) == 26


def test_failed_download_shows_an_error(page, monkeypatch):
    from engine.corpus import download
    from engine.errors import CorpusError

    def broken(*_, **__):
        raise CorpusError("the server answers 404")

    monkeypatch.setattr(download, "fetch", broken)
    test = page(corpus="wikigold")
    next(button for button in test.button if button.label.startswith("Download corpus")).click().run()
    assert "the server answers 404" in texts(test.error)


def test_clients_are_described_before_a_run(page):
    test = page(corpus="synthetic", clients=10, partition="label-skew")
    assert not test.exception
    assert PrivacyConfig().kind.note in texts(test.main.markdown) + texts(test.caption)
    open_tab(test, "details", "Clients")
    assert "10 clients with" in texts(test.caption)
    test.select_slider(key="clients").set_value(1).run()  # the open tab is gone
    assert not test.exception
    assert [tab.label for tab in test.tabs] == ["By entity type", "Numbers", "Download and repeat"]
    open_tab(test, "details", "Download and repeat")
    for clients in (10, 20, 1):  # the open tab stays open
        test.select_slider(key="clients").set_value(clients).run()
        assert len(test.tabs) == (3 if clients == 1 else 4)
        assert f"--clients {clients}" in test.code[0].value or clients == 1


def test_only_the_open_part_of_the_results_is_computed(page, monkeypatch):
    monkeypatch.setattr(PreviewService, "holdings", lambda *_: pytest.fail("its tab is closed"))
    monkeypatch.setattr(submitting, "missing", lambda *_: pytest.fail("the popover is closed"))
    test = page(clients="10")
    assert [tab.label for tab in test.tabs][-1] == "Clients"
    assert not test.code
    assert "seeds" not in [button.key for button in test.button]


class TestGroupPrivacy:
    """*What does this ε mean?* for a person in several sentences."""

    @pytest.fixture
    def group_privacy_text(self, page):
        """Return a function that returns the page's text with that part open and a number of sentences."""

        def open_part(sentences=None, **fields):
            test = page(**fields)
            test.session_state["promise"] = True
            if sentences:
                test.session_state["person_sentences"] = sentences
            test.run()
            assert not test.exception
            assert "person_sentences" not in test.query_params
            return texts((*test.markdown, *test.caption)).replace("*", "")

        return open_part

    def test_closed_part_computes_nothing(self, page, monkeypatch):
        monkeypatch.setattr(PreviewService, "person_epsilon", lambda *_: pytest.fail("the part is closed"))
        test = page()
        assert "k times" in texts(test.markdown)
        assert not [slider for slider in test.slider if slider.key == "person_sentences"]

    def test_number_of_sentences_can_be_selected(self, group_privacy_text):
        (line,) = (
            line for line in group_privacy_text(1).splitlines() if line.startswith("A person named in one sentence")
        )
        assert figures(line) == ["1.51", "82.0 %"]

    def test_ten_sentences_with_paper_settings(self, group_privacy_text):
        text = group_privacy_text(corpus="conll2003")
        (line,) = (line for line in text.splitlines() if line.startswith("A person named in 10 sentences"))
        assert figures(line) == ["10", "10.5", "99.998 %"]

    def test_longest_document_is_named(self, group_privacy_text, monkeypatch):
        monkeypatch.setattr(PreviewService, "longest_document", lambda self, name: 2)
        assert "The longest document of this corpus has 2 sentences: ε = 0." in group_privacy_text(noise_multiplier="5")

    def test_federation_text_covers_sentences_at_several_clients(self, group_privacy_text):
        text = group_privacy_text(noise_multiplier="5", clients="5")
        assert "at one client or at several" in text
        assert "longest document" not in text  # this corpus has no documents

    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            ({"sampling": "shuffle"}, "No ε is known"),
            ({"mechanism": "dp-fedavg", "clients": "5"}, "counts as a group of clients"),
        ],
    )
    def test_unknown_group_epsilon_is_not_shown(self, group_privacy_text, fields, sentence):
        text = group_privacy_text(**fields)
        assert sentence in text
        assert "A person named in" not in text


def test_upload_names_the_retention_period(open_page, settings):
    assert not any("are deleted" in element.value for element in open_page("explore").markdown)
    test = open_page("explore", dataclasses.replace(settings, retention_days=365))
    assert any("is used for 365 days, both are deleted" in element.value for element in test.markdown)
