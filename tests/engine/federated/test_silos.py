"""Silos with their own tags: shared layers are averaged, and private heads stay with their silo."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from engine import corpus
from engine.config import SimulationConfig
from engine.embeddings import contamination
from engine.embeddings.encoding import tag_sequences
from engine.errors import CorpusError, InvalidConfig
from engine.federated.accounting import privacy_spent
from engine.federated.fedavg import Federation
from engine.federated.plan import plan_of
from engine.privacy import accounting
from engine.privacy.noise_check import critical_values
from engine.privacy.plan import PrivacyPlan
from engine.records import Counts, EntityScores, RoundRecord
from engine.records.assumption_texts import APART, PRIVATE_LAYERS
from engine.scoring import score
from engine.service import Application
from engine.simulation.run import simulate
from engine.simulation.setup import prepare
from engine.taggers.layers import Dense, Softmax
from engine.taggers.tagger import stack
from engine.training import dpsgd
from engine.training.backends import backend_of
from engine.training.checkpoint import Checkpoint
from engine.training.dpsgd import predict
from tests.engine.federated.silos import FLAT, SIZES, TAGS, federation, sentences, tagger


def train_rounds(run: Federation, rounds: int) -> Federation:
    for progress in run.train():
        if progress.round == rounds - 1:
            break
    return run


@pytest.mark.parametrize("weighting", ["examples", "equal"])
def test_a_round_averages_shared_layers_and_keeps_private_heads(weighting: str) -> None:
    changes = {"noise_multiplier": 0.0, "clip_norm": None, "weighting": weighting}
    run, before = train_rounds(federation(**changes), 1), federation(**changes)
    alone = []
    for visit in before.plan.rounds[0]:
        learner = before.learner(visit)
        for step in range(visit.steps):
            learner.step(step)
        alone.append(learner.weights.astype(np.float64))
    shared = before.holdings[0].shared
    shares = np.array(SIZES if weighting == "examples" else (1, 1, 1), dtype=np.float64)
    mean = np.average([weights[:shared] for weights in alone], axis=0, weights=shares)
    np.testing.assert_allclose(run.weights[:shared], mean, rtol=1e-5, atol=1e-8)
    for holding, weights in zip(run.holdings, alone, strict=True):
        np.testing.assert_array_equal(run.weights[holding.private_slice], weights[shared:].astype(np.float32))
        assert not np.array_equal(run.weights[holding.private_slice], before.weights[holding.private_slice])


def test_uploads_have_the_size_of_the_shared_layers() -> None:
    run = federation(noise_multiplier=0.0, clip_norm=None)
    ends = [progress.exchange for progress in run.train() if progress.exchange]
    assert [end.bytes_up for end in ends] == [4 * 3 * run.holdings[0].shared] * 3


def test_shared_layers_learn_from_all_silos_and_private_heads_from_one() -> None:
    """In the first round, the private head does not depend on other silos; later it does."""
    runs = [federation(noise_multiplier=0.0, clip_norm=None) for _ in range(2)]
    other = sentences(SIZES[2], TAGS[2])
    other = dataclasses.replace(other, tags=(other.tags + 1) % TAGS[2])
    runs[1].holdings = (*runs[1].holdings[:2], dataclasses.replace(runs[1].holdings[2], split=other))
    both = [run.train() for run in runs]
    for rounds, same in ((1, True), (2, False)):
        for run in both:
            next(progress for progress in run if progress.round == rounds - 1)
        own = runs[0].holdings[0].private_slice
        assert np.array_equal(runs[0].weights[own], runs[1].weights[own]) == same
        assert not np.array_equal(runs[0].weights[:100], runs[1].weights[:100])


class TestPrivacyOfSilos:
    def test_epsilon_of_a_silo_counts_its_steps(self) -> None:
        plan = federation(noise_multiplier=1.0).plan
        each = [privacy_spent(plan, plan.steps, 3, client) for client in range(3)]
        for found, size, part in zip(each, SIZES, plan.parts, strict=True):
            steps = 3 * round(2 * size / 8)
            expected = PrivacyPlan(
                examples=size,
                batch_size=8,
                steps=steps,
                noise_multiplier=1.0,
                clip_norm=0.4,
                delta=1e-5,
                sampling="poisson",
            )
            assert part == expected
            assert found.epsilon == accounting.epsilon(expected, steps)
            assert APART.format(number=0) in found.assumptions
        assert privacy_spent(plan, plan.steps, 3).epsilon == max(found.epsilon for found in each) == each[1].epsilon

    @pytest.mark.parametrize("mechanism", ["dp-fedavg", "local"])
    def test_client_level_epsilon_is_equal_for_all_and_excludes_private_heads(self, mechanism: str) -> None:
        plan = federation(noise_multiplier=1.0, mechanism=mechanism).plan
        each = [privacy_spent(plan, plan.steps, 3, client) for client in range(3)]
        assert len({found.epsilon for found in each}) == 1
        assert all(PRIVATE_LAYERS in found.assumptions for found in each)
        assert PRIVATE_LAYERS not in privacy_spent(federation(noise_multiplier=1.0).plan, 10, 1).assumptions


class TestNoiseChecks:
    @staticmethod
    def checked(run: Federation) -> list[Any]:
        for _ in run.train():
            pass
        return [monitor.verdict() for monitor in run.monitors]

    def test_noise_of_each_silo_is_measured_on_all_weights(self) -> None:
        run = federation(noise_multiplier=1.0)
        found = self.checked(run)
        assert all(check.passed for check in found)
        assert [check.steps for check in found] == [part.steps for part in run.plan.parts]
        assert [monitor.watch.layers[-1][1].stop for monitor in run.monitors] == [tagger(tags).size for tags in TAGS]
        assert [monitor.watch.share(1) for monitor in run.monitors] == [critical_values.share(3)] * 3, (
            "of a probability of one in a million"
        )

    def test_sabotage_without_noise_in_a_private_head_is_detected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        original, last_tagger = dpsgd.add_gaussian_noise, tagger(TAGS[2])

        def sabotage(total: np.ndarray, stream: Any, std: float) -> None:
            kept = total[last_tagger.shared.stop :].copy()
            original(total, stream, std)
            if total.size == last_tagger.size:
                total[last_tagger.shared.stop :] = kept

        monkeypatch.setattr(dpsgd, "add_gaussian_noise", sabotage)
        found = self.checked(federation(noise_multiplier=1.0, rounds=8))
        assert [check.failed for check in found] == [False, False, True]
        assert "linear" in " ".join(found[2].faults) or "CRF" in " ".join(found[2].faults)

    @pytest.mark.parametrize("mechanism", ["dp-fedavg", "local"])
    def test_client_level_noise_is_measured_on_shared_layers(self, mechanism: str) -> None:
        run = federation(noise_multiplier=1.0, mechanism=mechanism)
        (found,) = self.checked(run)
        assert found.passed
        assert run.monitors[0].watch.layers == (("LSTM", slice(0, run.holdings[0].shared)),)


def test_each_update_is_clipped_to_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Private heads learn without clipping here, which must not change the bound."""
    updates = []
    from engine.federated import server

    original = server.clip
    monkeypatch.setattr(server, "clip", lambda update, bound: updates.append(original(update, bound)) or updates[-1])
    run = federation(noise_multiplier=1.0, mechanism="dp-fedavg", epochs=10.0)
    for _ in run.train():
        pass
    assert len(updates) == 9
    assert all(update.size == run.holdings[0].shared for update in updates)
    assert max(np.linalg.norm(update) for update in updates) <= 0.4 * (1 + 1e-6)
    assert np.linalg.norm(updates[0]) > 0.39


class TestPlan:
    def test_data_fraction_applies_to_each_silo(self) -> None:
        plan = federation(data_fraction=0.5).plan
        assert [len(shard) for shard in plan.shards] == [30, 20, 45]
        borders = np.cumsum([0, *SIZES])
        for number, shard in enumerate(plan.shards):
            held = plan.chosen[shard]
            assert ((held >= borders[number]) & (held < borders[number + 1])).all()
            assert len(np.unique(held)) == len(held)
        assert (np.diff(plan.chosen) > 0).all()

    def test_a_data_fraction_without_sentences_for_a_silo_is_refused(self) -> None:
        with pytest.raises(InvalidConfig, match=r"data_fraction=0\.01 .*\bnone of the 40 .*silo 2\b"):
            federation(data_fraction=0.01)


class TestConfiguration:
    def test_clients_are_the_silos(self) -> None:
        config = SimulationConfig.from_flat(FLAT)
        assert config.platforms == ("a", "b", "c")
        assert config.federation.clients == 3
        assert config == SimulationConfig.from_flat(FLAT | {"clients": 3})
        assert SimulationConfig().platforms == ()

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"clients": 2}, "clients=2, expected 3, one for each corpus"),
            ({"partition": "unequal"}, "partition='unequal', expected 'independent' or 'random', since each client"),
            ({"corpus": "a + a"}, r"corpus='a \+ a',.* a different corpus"),
            ({"corpus": "a + "}, r"corpus='a \+ ',.* a different corpus"),
        ],
    )
    def test_incompatible_fields_are_refused(self, changes: dict[str, Any], sentence: str) -> None:
        with pytest.raises(InvalidConfig, match=sentence):
            SimulationConfig.from_flat(FLAT | changes)

    def test_a_tagger_with_one_layer_cannot_share(self) -> None:
        with pytest.raises(InvalidConfig, match=r"\bnothing\b.*\bshare\b"):
            stack(7, (Dense(7, 3),), Softmax(3)).sharing()


def test_scores_of_silos_are_combined() -> None:
    one = EntityScores(
        {"PER": Counts(1, 2, 3)}, {"PER": Counts(2, 2, 3)}, {"O": Counts(5, 6, 7), "B-PER": Counts(1, 2, 3)}
    )
    other = EntityScores({"PER": Counts(4, 4, 8)}, {"PER": Counts(4, 4, 8)}, {"O": Counts(1, 1, 1)})
    found = EntityScores.together({"a": one, "b": other})
    assert found.strict == {"a: PER": Counts(1, 2, 3), "b: PER": Counts(4, 4, 8)}
    assert found.token == {"a: B-PER": Counts(1, 2, 3), "O": Counts(6, 7, 8)}
    assert found.f1 == 2 * 5 / (6 + 11)


class TestSimulation:
    """Runs with two corpora of different sizes and tag sets: the embedded one and a file."""

    @pytest.fixture
    def config(self, tmp_path) -> SimulationConfig:
        lines = [f"Dose O\n{w} B-Drug\n5 B-Amount\nmg I-Amount\n\n" for w in ("Aspirin", "Zinc", "Iron", "Salt") * 30]
        file = tmp_path / "drugs.conll"
        file.write_text("".join(lines))
        flat = {"corpus": f"synthetic + {file}", "data_fraction": 0.05, "epochs": 1.0, "hidden_size": 8, "rounds": 3}
        return SimulationConfig.from_flat(flat | {"batch_size": 8, "averaging": 0.5})

    @pytest.mark.parametrize("mechanism", ["dp-sgd", "dp-fedavg"])
    @pytest.mark.repeats
    def test_records_and_models_of_each_silo_and_resume(self, config, trained_settings, mechanism) -> None:
        config = dataclasses.replace(config, privacy=dataclasses.replace(config.privacy, mechanism=mechanism))
        checkpoints: list[Checkpoint] = []
        models: list[Any] = []
        whole = list(simulate(config, trained_settings, on_checkpoint=checkpoints.append, on_model=models.append))
        last = whole[-1]
        assert [platform.name for platform in last.platforms] == list(config.platforms)
        assert [sorted(platform.test.strict) for platform in last.platforms] == [
            ["DATE", "LOC", "ORG", "PER"],
            ["Amount", "Drug"],
        ]
        assert last.privacy.epsilon == max(platform.privacy.epsilon for platform in last.platforms)
        assert sum(counts.gold for counts in last.test.strict.values()) == sum(
            counts.gold for platform in last.platforms for counts in platform.test.strict.values()
        )
        assert RoundRecord.from_dict(last.to_dict()) == last
        assert [model.platform for model in models] == list(config.platforms)
        assert [len(model.tags) for model in models] == [9, 5]
        # A saved model includes the private head, which client-level noise does not protect.
        model_epsilon = last.privacy.epsilon if mechanism == "dp-sgd" else math.inf
        assert [model.epsilon for model in models] == [model_epsilon] * 2
        shared = models[0].tagger.shared
        assert np.array_equal(models[0].weights[shared], models[1].weights[shared])
        for model in models:
            model.save(trained_settings.home / "kept.npz")
            read = type(model).load(trained_settings.home / "kept.npz")
            assert read.platform == model.platform
            assert np.array_equal(read.weights, model.weights)

        resumed: list[Any] = []
        rest = list(simulate(config, trained_settings, resume=checkpoints[0], on_model=resumed.append))
        assert [dataclasses.replace(record, seconds=0.0) for record in rest] == [
            dataclasses.replace(record, seconds=0.0) for record in whole[1:]
        ]
        for one, other in zip(models, resumed, strict=True):
            assert np.array_equal(one.weights, other.weights)

    @pytest.mark.parametrize(("scheme", "tags"), [("bioes,bio2", [17, 5]), ("bio2,bioes", [9, 9])])
    def test_silos_have_their_own_tag_schemes_also_in_saved_models(
        self, config, trained_settings, scheme, tags
    ) -> None:
        learning = {
            "tagger": "mlp-softmax",
            "optimiser": "adam",
            "learning_rate": 0.02,
            "epochs": 8.0,
            "averaging": 0.0,
        }
        flat = config.flat() | learning | {"scheme": scheme, "noise_multiplier": 0.0, "clip_norm": None}
        config = SimulationConfig.from_flat(flat)
        models: list[Any] = []
        last = list(simulate(config, trained_settings, on_model=models.append))[-1]
        assert [len(model.tags) for model in models] == tags
        assert not [name for name in last.test.token if name.partition(": ")[2][:1] in ("E", "S")]
        in_bio2 = prepare(SimulationConfig.from_flat(config.flat() | {"scheme": "bio2"}), trained_settings)
        for model, side, platform in zip(models, in_bio2.sides, last.platforms, strict=True):
            model.save(trained_settings.home / "kept.npz")
            kept = type(model).load(trained_settings.home / "kept.npz")
            encoded = side.encoded  # in BIO2, as on disk
            backend = backend_of(kept.tagger, "mean", "compiled")
            found = predict(backend, kept.decoder, kept.weights, None, encoded.test, encoded.vectors, lambda: None)
            gold = tag_sequences(encoded.test, encoded.test.tags, encoded.tags)
            assert score(gold, tag_sequences(encoded.test, found, kept.names)) == platform.test
            assert platform.test.f1 > 0.1

    def test_initial_shared_weights_are_equal_and_private_ones_differ(self, config, trained_settings) -> None:
        run = prepare(config, trained_settings).run
        alone = prepare(
            dataclasses.replace(config, corpus="synthetic", federation=type(config.federation)()), trained_settings
        ).run
        shared = run.holdings[0].shared
        assert np.array_equal(run.weights[:shared], alone.weights[:shared])
        first, second = (run.weights[holding.private_slice] for holding in run.holdings)
        assert not np.array_equal(first[:40], second[:40])


class TestMultiCorpus:
    @pytest.fixture
    def joined(self, tmp_path, trained_settings):
        file = tmp_path / "drugs.conll"
        file.write_text("Dose O\nAspirin B-PER\n\n" * 40)
        return corpus.resolve(f"synthetic + {file}", trained_settings), file

    def test_train_sentences_add_up_and_load_is_refused(self, joined) -> None:
        found, _ = joined
        assert found.train_sentences == 4_400 + 32
        assert not found.synthetic
        with pytest.raises(CorpusError, match="only trained as clients"):
            found.load()

    def test_all_missing_corpora_are_named(self, trained_settings) -> None:
        """The catalogue knows the size of some missing corpora, but not their common sentences."""
        for ask in ("checksum", "train_sentences", "own"):
            with pytest.raises(CorpusError, match=r"^corpus='ade' .*not available.*; corpus='bc5cdr' .*not available"):
                getattr(corpus.resolve("synthetic + ade@0 + bc5cdr", trained_settings), ask)

    def test_shared_sentences_are_counted(self, trained_settings, tmp_path) -> None:
        for name, words in (("one", ("Aspirin", "Zinc")), ("other", ("Zinc", "Iron"))):
            (tmp_path / name).mkdir()
            for part in ("train", "valid", "test"):
                text = "".join(f"take O\nthis O\n{w} B-Drug\n{part} O\n\n" for w in words)
                (tmp_path / name / f"{part}.conll").write_text(text)
        assert Application(trained_settings).corpora.shared_sentences(f"{tmp_path / 'one'} + {tmp_path / 'other'}") == 1

    def test_checksum_depends_on_each_corpus_and_their_order(self, joined, trained_settings) -> None:
        found, file = joined
        swapped = corpus.resolve(f"{file} + synthetic", trained_settings)
        before = found.checksum
        assert before != swapped.checksum
        file.write_text("Dose O\nAspirin B-PER\n\n" * 39 + "Dose O\nZinc B-PER\n\n")
        changed = corpus.resolve(found.name, trained_settings, before)
        with pytest.raises(CorpusError, match="was changed since"):
            _ = changed.checksum

    def test_a_sentence_of_several_silos_is_trained_on_once(self, joined, trained_settings, tmp_path) -> None:
        """A sentence in another silo's test set is left out too; short sentences stay."""
        whole = corpus.resolve("synthetic", trained_settings).load()
        trained, tested = whole.train[5].tokens, whole.test[3].tokens
        lines = [
            " ".join(trained).upper().split(),
            tested,
            ("Aspirin", "helps"),
            *[("Take", "5", "mg", "daily", "!")] * 40,
        ]
        texts = ["".join(f"{token} {'B-X' if n else 'O'}\n" for n, token in enumerate(each)) for each in lines]
        folder = tmp_path / "third"
        folder.mkdir()
        for part, rows in (("train", texts), ("valid", texts[-1:]), ("test", texts[-2:])):
            (folder / f"{part}.txt").write_text("\n".join(rows))
        found = corpus.resolve(f"synthetic + {folder}", trained_settings)
        first, second = found.own
        assert first.tolist() == list(range(4_400))
        assert second.tolist() == list(range(4_402, 4_443))
        assert [own.tolist() for own in corpus.resolve(found.name, trained_settings).own] == [
            own.tolist() for own in found.own
        ]
        first, second = corpus.resolve(f"{folder} + synthetic", trained_settings).own
        assert first.tolist() == [0, *range(2, 43)]
        assert second.tolist() == [43 + n for n in range(4_400) if n != 5]
        config = SimulationConfig(corpus=found.name)
        plan = plan_of(config, found)
        assert plan.in_common == 2
        assert [len(shard) for shard in plan.shards] == [4_400, 41]
        assert plan.chosen[plan.shards[1]].tolist() == found.own[1].tolist()
        assert APART.format(number=2) in privacy_spent(plan, plan.steps, 1).assumptions

    def test_a_silo_does_not_change_others_under_client_level_privacy(self, trained_settings, tmp_path) -> None:
        """With the old rule, the second silo left out what the first one had."""
        rows = ["take one today : aspirin", "take one today : zinc", "take one today : iron"]
        kept = []
        for number, first in enumerate((rows[:2], [*rows[:2], rows[2]])):
            names = [tmp_path / f"{number}" / silo for silo in ("first", "second")]
            for folder, texts in zip(names, (first, rows), strict=True):
                folder.mkdir(parents=True)
                lines = "".join(text.replace(" ", " O\n") + " B-Drug\n\n" for text in texts)
                for part in ("train", "valid", "test"):
                    (folder / f"{part}.conll").write_text(lines)
            flat = {"corpus": " + ".join(map(str, names)), "mechanism": "secure-sum", "noise_multiplier": 1.0}
            config = SimulationConfig.from_flat(flat)
            found = corpus.of_run(config, trained_settings)
            plan = plan_of(config, found)
            assert plan.in_common == 0
            assert PRIVATE_LAYERS in privacy_spent(plan, plan.steps, 1).assumptions
            kept.append(plan.chosen[plan.shards[1]] - len(first))
            once = corpus.resolve(config.corpus, trained_settings)
            assert once.checksum != found.checksum
            earlier = corpus.of_run(config, trained_settings, once.checksum)
            assert earlier.checksum == once.checksum
            assert [own.tolist() for own in earlier.own] == [own.tolist() for own in once.own]
        np.testing.assert_array_equal(kept[0], kept[1])
        assert kept[0].tolist() == [0, 1, 2]

    def test_layout_separates_types_with_equal_names(self, joined) -> None:
        found, file = joined
        layout = found.layout
        assert layout.types[-1] == f"{file}: PER"
        assert len(layout) == 4_432
        assert layout.entities[4_400:].tolist() == [[0, 0, 0, 0, 1]] * 32
        assert not layout.entities[:4_400, 4].any()

    def test_contamination_is_counted_over_all_silos(self, joined, monkeypatch) -> None:
        found, _ = joined
        tokens = found.parts[0].load().train[7].tokens
        monkeypatch.setattr(contamination, "fitted_on", lambda part: contamination.checksums([tokens]))
        overlap = contamination.overlap(found, "contextual")
        assert overlap.sentences == (4_432, 604, 1_004)
        assert overlap.shared == (1, 0, 0)

    def test_another_machine_finds_the_corpora_by_checksum(self, joined, trained_settings, tmp_path) -> None:
        found, file = joined
        shared = dataclasses.replace(trained_settings, shared="memory://platforms")
        handle = corpus.resolve(found.name, shared)
        handle.share()
        checksum, moved = handle.checksum, tmp_path / "moved.conll"
        file.rename(moved)
        remote = corpus.resolve(found.name, dataclasses.replace(shared, home=tmp_path / "other home"), checksum)
        assert remote.checksum == checksum
        assert len(remote.parts[1].load().train) == 32
        assert plan_of(SimulationConfig(corpus=found.name), remote).steps > 0


class TestSmallSilos:
    """Silos with hardly any data take part, or are refused."""

    @staticmethod
    def two_corpora(folder: Any, small: str) -> str:
        for name, text in (("many", "Take O\nAspirin B-Drug\nnow O\n\n" * 40), ("few", small)):
            (folder / name).mkdir()
            for part in ("train", "valid", "test"):
                (folder / name / f"{part}.conll").write_text(text)
        return f"{folder / 'many'} + {folder / 'few'}"

    @pytest.mark.parametrize(
        "more",
        [
            {"schedule": "gradients", "noise_multiplier": 0.0},
            {"schedule": "gradients", "noise_multiplier": 1.0},
            {"rounds": 2, "mechanism": "secure-sum", "noise_multiplier": 2.0},
        ],
    )
    @pytest.mark.repeats(after=1)
    def test_a_silo_with_one_sentence_trains(self, more: dict[str, Any], trained_settings: Any, tmp_path: Any) -> None:
        name = self.two_corpora(tmp_path, "Swallow O\nZinc B-Metal\n\n")
        flat = {"corpus": name, "tagger": "mlp-crf", "hidden_size": 4, "epochs": 1.0}
        (last,) = (r for r in simulate(SimulationConfig.from_flat(flat | more), trained_settings) if r.test)
        assert [sum(c.gold for c in platform.test.strict.values()) for platform in last.platforms] == [40, 1]

    def test_a_silo_without_entities_is_refused(self, trained_settings: Any, tmp_path: Any) -> None:
        config = SimulationConfig.from_flat(
            {"corpus": self.two_corpora(tmp_path, "Take O\nit O\n\n"), "tagger": "mlp-crf"}
        )
        with pytest.raises(CorpusError, match="only the tag O"):
            list(simulate(config, trained_settings))
