"""Sentences whose contextual features were computed before, and whose corpora may lend them."""

import hashlib
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from engine import corpus, embeddings
from engine.config import FEATURE_SETS, JOIN, SYNTHETIC
from engine.config.encoder_registry import MPNET
from engine.config.feature_registry import ALL_PARTS
from engine.corpus import derived_files
from engine.corpus.multi_corpus import JoinedCorpora
from engine.embeddings import contextual, features, prepared
from engine.embeddings.custom_model import OwnInContext
from engine.errors import RunStopped, VectorsMissing
from engine.experiments import recommended_settings
from engine.setup import Failed, embedded_features
from tests.engine.embeddings.encoders import minilm_weights

FIRST = [f"Rosa met Ann {number}".split() for number in range(18)] + [["Rain", "."], ["Rain", "."]]
MORE = [["Ann", "sings", "."], ["Max", "left"]]
PACKAGE = "en_core_web_md"


@pytest.fixture
def home(settings, encoded, tmp_path, monkeypatch):
    """Return settings with the word vectors that tests share, whose corpora all belong to one user."""
    monkeypatch.setattr(prepared, "FOLDER", tmp_path / "of the environment")
    settings.home.mkdir()
    (encoded / "vectors").mkdir(exist_ok=True)
    (settings.home / "vectors").symlink_to(encoded / "vectors")
    (settings.home / "corpora").mkdir()
    return replace(settings, shared_with=lambda name, others: set(others))


@pytest.fixture
def computed(monkeypatch) -> list[dict[str, list[str]]]:
    """Return the sentences of each computation, by part; values made from the words replace the language model."""
    calls: list[dict[str, list[str]]] = []

    def values(name: str, sentences: Sequence[Sequence[str]], width: int) -> np.ndarray:
        rows = [
            hashlib.shake_128(repr((name, list(words), place)).encode()).digest(2 * width)
            for words in sentences
            for place in range(len(words))
        ]
        return np.frombuffer(b"".join(rows), np.uint16).reshape(-1, width)

    def compute(wanted: Mapping[str, Sequence[Sequence[str]]], package, near_by, progress, more=()):
        calls.append({name: [" ".join(words) for words in sentences] for name, sentences in wanted.items()})
        progress(0.5)
        sizes = {part.name: part.width or (768 if MPNET in more else 384) for part in ALL_PARTS}
        model = "" if more == [] else more[0]
        return {name: values(name + model * (name != "ner-tags"), wanted[name], sizes[name]) for name in wanted}

    monkeypatch.setattr(features, "_in_context", compute)
    monkeypatch.setattr(features, "with_projection", lambda own, *_: [own.label] if own else [])
    return calls


def write(settings, name: str, sentences: Sequence[Sequence[str]]) -> None:
    text = "\n".join(
        "".join(f"{word} {'O' if n else 'B-PER'}\n" for n, word in enumerate(words)) for words in sentences
    )
    (settings.home / "corpora" / f"my-{name}.conll").write_text(f"# entity types: PER\n{text}")


def encode(settings, name: str, kind: str = "layer", own: OwnInContext | None = None) -> np.ndarray:
    handle = corpus.resolve(name if name == SYNTHETIC else f"my-{name}", settings)
    return np.array(embeddings.encode(handle, PACKAGE, kind, own=own).vectors)


def apart(settings, name: str, kind: str = "layer", own: OwnInContext | None = None) -> np.ndarray:
    """Return the features as a computation of the whole corpus gives them."""
    for file in (settings.home / "encoded").glob("*.npy"):
        file.unlink()
    return encode(settings, name, kind, own)


def texts(calls: list[dict[str, list[str]]], part: str = "centred-layer") -> list[set[str]]:
    return [set(call.get(part, ())) for call in calls]


def joined(sentences: Sequence[Sequence[str]]) -> set[str]:
    return set(map(" ".join, sentences))


class TestReuse:
    def test_equal_sentences_of_a_corpus_are_computed_once(self, home, computed) -> None:
        write(home, "first", FIRST)
        table = encode(home, "first")
        ((sentences,),) = (list(call.values()) for call in computed)
        assert sorted(sentences) == sorted(joined(FIRST))
        words = [token for part in ("train", "validation", "test") for token in part_tokens(home, "first", part)]
        rain = [place for place, word in enumerate(words) if word == "Rain"]
        assert np.array_equal(table[rain[0]], table[rain[1]])

    def test_only_new_sentences_of_another_corpus_are_computed(self, home, computed) -> None:
        write(home, "first", FIRST)
        write(home, "second", FIRST[5:] + MORE)
        encode(home, "first")
        table = encode(home, "second")
        assert texts(computed) == [joined(FIRST), joined(MORE)]
        assert np.array_equal(table, apart(home, "second"))
        assert texts(computed)[2] == joined(FIRST[5:] + MORE)

    def test_a_split_computes_nothing(self, home, computed) -> None:
        write(home, "first", FIRST)
        encode(home, "first")
        table = encode(home, "first@3")
        assert len(computed) == 1
        assert np.array_equal(table, apart(home, "first@3"))

    def test_a_second_feature_set_computes_only_what_it_adds(self, home, computed) -> None:
        write(home, "first", FIRST)
        encode(home, "first")
        table = encode(home, "first", "layer-names")
        assert list(computed[1]) == ["ner-tags"]
        assert np.array_equal(table, apart(home, "first", "layer-names"))
        assert np.array_equal(encode(home, "first", "layer"), table[:, : FEATURE_SETS["layer"].width()])
        assert len(computed) == 3

    def test_another_language_model_computes_its_layer_and_no_names(self, home, computed) -> None:
        write(home, "first", FIRST)
        own = OwnInContext(MPNET, home)
        encode(home, "first", "layer-names")
        table = encode(home, "first", "layer-names", own)
        assert list(computed[1]) == ["centred-layer"]
        assert np.array_equal(table, apart(home, "first", "layer-names", own))

    def test_a_public_corpus_lends_to_all(self, home, computed) -> None:
        alone = replace(home, shared_with=None)
        public = [sentence.tokens for sentence in corpus.resolve(SYNTHETIC, alone).load().train[:10]]
        encode(alone, SYNTHETIC)
        write(home, "first", [*public, *MORE])
        encode(alone, "first")
        assert texts(computed)[1] == joined(MORE)


def part_tokens(settings, name: str, part: str) -> list[str]:
    return [
        token for sentence in getattr(corpus.resolve(f"my-{name}", settings).load(), part) for token in sentence.tokens
    ]


class TestRights:
    def test_corpora_of_others_lend_nothing(self, home, computed) -> None:
        asked: list[tuple[str, set[str]]] = []

        def shared_with(name: str, others) -> set[str]:
            asked.append((name, set(others)))
            return {"my-hers"}

        write(home, "his", FIRST)
        write(home, "hers", FIRST[:3] + FIRST[:3] * 4)
        write(home, "new", FIRST + MORE)
        encode(home, "his")
        encode(home, "hers")
        computed.clear()
        encode(replace(home, shared_with=shared_with), "new@2")
        assert texts(computed) == [joined(FIRST[3:] + MORE)]
        assert asked == [("my-new", {"my-his", "my-hers", "my-new"})]

    def test_without_known_users_no_upload_lends_anything(self, home, computed) -> None:
        write(home, "first", FIRST)
        write(home, "second", FIRST + MORE)
        encode(home, "first")
        encode(replace(home, shared_with=None), "second")
        assert texts(computed)[1] == joined(FIRST + MORE)

    def test_uploads_lend_nothing_to_a_public_corpus(self, home, computed) -> None:
        public = [sentence.tokens for sentence in corpus.resolve(SYNTHETIC, home).load().train[:20]]
        write(home, "first", public)
        encode(home, "first")
        encode(home, SYNTHETIC)
        assert joined(public) <= texts(computed)[1]

    def test_masked_sentences_are_lent_to_no_other_corpus(self, home, computed) -> None:
        write(home, "first", FIRST)
        write(home, "second", FIRST)
        handle = JoinedCorpora(f"my-first{JOIN}my-second", home, masked=0.5).parts[0]
        embeddings.encode(handle, PACKAGE, "layer")
        encode(home, "first")
        assert texts(computed)[1] == joined(FIRST)
        embeddings.encode(handle, PACKAGE, "layer-names")
        assert list(computed[2]) == ["ner-tags"]

    def test_a_deleted_corpus_leaves_nothing(self, home, computed) -> None:
        write(home, "first", FIRST)
        write(home, "second", FIRST + MORE)
        before = corpus.resolve("my-first", home)
        splits = [corpus.resolve(name, home).checksum[:16] for name in ("my-first", "my-first@3")]
        for name in ("first", "first@3"):
            encode(home, name)
        assert derived_files.listed_splits(before.checksum, home.artefacts) == set(splits)
        (home.home / "corpora" / "my-first.conll").unlink()
        encode(home, "second")  # the files of a deleted corpus are no longer lent, even if they are still there
        assert texts(computed)[-1] == joined(FIRST + MORE)
        for checksum in splits:
            derived_files.forget(checksum, home.artefacts)
        assert [path for path in home.home.rglob("*") if any(checksum in path.name for checksum in splits)] == []


class TestDamage:
    @pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" * 99])
    @pytest.mark.parametrize("pattern", ["*-layer-*.npy", "*-of-*.npy"])
    def test_damaged_files_lend_nothing(self, home, computed, pattern: str, damage: Callable[[bytes], bytes]) -> None:
        write(home, "first", FIRST)
        write(home, "second", FIRST + MORE)
        encode(home, "first")
        (file,) = (home.home / "encoded").glob(pattern)
        file.write_bytes(damage(file.read_bytes()))
        table = encode(home, "second")
        assert texts(computed)[1] == joined(FIRST + MORE)
        assert np.array_equal(table, apart(home, "second"))

    @pytest.mark.parametrize("array", [np.zeros((3, 401), np.uint16), np.zeros(1), np.zeros((2, 2), np.float32)])
    def test_files_of_other_shapes_lend_nothing(self, home, computed, array: np.ndarray) -> None:
        write(home, "first", FIRST)
        write(home, "second", FIRST + MORE)
        for pattern in ("*-layer-*.npy", "*-of-*.npy"):
            encode(home, "first")
            (file,) = (home.home / "encoded").glob(pattern)
            np.save(file, array)
            apart_of = encode(home, "second")
            assert texts(computed)[-1] == joined(FIRST + MORE)
            assert np.array_equal(apart_of, apart(home, "second"))
            apart(home, "first")

    def test_an_interrupted_computation_lends_nothing_and_is_repeated(self, home, computed) -> None:
        def stop(share: float) -> None:
            raise RunStopped("stopped")

        write(home, "first", FIRST)
        write(home, "second", FIRST + MORE)
        with pytest.raises(RunStopped):
            embeddings.encode(corpus.resolve("my-first", home), PACKAGE, "layer", stop)
        encode(home, "second")
        assert texts(computed)[1] == joined(FIRST + MORE)
        encode(home, "first")
        assert len(computed) == 2  # all of its sentences are known by now


class TestSetUp:
    @pytest.fixture
    def with_minilm(self, monkeypatch) -> None:
        monkeypatch.setattr(embedded_features, "has_mpnet", lambda: False)

    def test_a_new_home_computes_no_features_of_the_embedded_corpus(self, home, computed, with_minilm) -> None:
        told: list[str] = []
        assert not embedded_features.installed()
        old = prepared.FOLDER / "of-an-earlier-version.npz"
        prepared.write(old, np.zeros((1, 1), np.uint16))
        embedded_features.install(told.append)
        assert embedded_features.installed()
        assert told == ["50%"]
        assert len(computed) == 1
        assert not old.exists()
        assert {stat.S_IMODE(path.stat().st_mode) for path in prepared.FOLDER.iterdir()} == {0o644}
        table = encode(home, SYNTHETIC, "names")
        assert len(computed) == 1
        for path in prepared.FOLDER.iterdir():
            path.write_bytes(path.read_bytes()[:-99])  # damaged: computed again
        assert np.array_equal(table, apart(home, SYNTHETIC, "names"))
        assert len(computed) == 2

    def test_features_are_those_of_the_recommended_settings(self, monkeypatch) -> None:
        for has, number in ((False, recommended_settings.WITH_MINILM), (True, len(recommended_settings.STEPS) - 1)):
            monkeypatch.setattr(embedded_features, "has_mpnet", lambda has=has: has)
            config = recommended_settings.recipe_step(number, SYNTHETIC, 4400, 1.0)
            assert embedded_features.chosen() == (config.features, config.language_model)
            assert config.embeddings == embedded_features.PACKAGE

    def test_a_missing_model_is_named(self, home, monkeypatch, with_minilm) -> None:
        def missing(*_, **__):
            raise VectorsMissing("no MiniLM here")

        monkeypatch.setattr(features, "_in_context", missing)
        with pytest.raises(Failed, match=r"no MiniLM here.*first run"):
            embedded_features.install(lambda words: None)
        assert not embedded_features.installed()


def test_rows_do_not_depend_on_other_sentences() -> None:
    """To the last bit: otherwise the rows that are copied would not be those of a computation."""
    minilm_weights()
    sentences = [["Angela", "Merkel", "visited", "Paris", "."], ["Rain"], ["it", "rains"], ["Obama"] * 40] * 3
    package = embeddings.find(PACKAGE).folder
    for part in ALL_PARTS:
        if part.in_context:
            together = contextual.part_in_context(part.name, package, sentences)
            alone = [contextual.part_in_context(part.name, package, [words]) for words in sentences[:4]]
            assert np.array_equal(together, np.concatenate(alone * 3))


def test_parts_are_computed_in_groups_with_one_share(monkeypatch) -> None:
    minilm_weights()
    monkeypatch.setattr(contextual, "_GROUP_TOKENS", 10)
    sentences, package, shares = [["Angela", "met", str(number)] for number in range(40)], embeddings.find(PACKAGE), []
    wanted = {"centred-layer": sentences, "ner-tags": sentences[:10]}
    found = contextual.parts_in_context(wanted, package.folder, shares.append)
    for name, given in wanted.items():
        whole = features.narrow(contextual.part_in_context(name, package.folder, given))
        assert np.array_equal(found[name], whole)
    assert shares == sorted(shares)
    assert len(shares) > 10
    assert shares[-1] == pytest.approx(1)
