"""The stated adjacency is one that the assignment of sentences keeps."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from engine import corpus as corpora
from engine.config import PARTITIONS, SimulationConfig, run_id
from engine.config.mechanism_registry import DP_FEDAVG, DP_SGD, ZERO_OUT
from engine.corpus.loader import split_by_seed
from engine.corpus.sentences import Sentence
from engine.federated.accounting import privacy_spent, with_adjacency
from engine.federated.plan import federated_plan, plan_of, seeded_secrets
from engine.records import PrivacySpent
from engine.records.assumption_texts import BY_TAGS, DISJOINT, INDEPENDENT, SPLIT
from engine.settings import Settings
from engine.store.earlier_records import restated
from tests.engine.factories import record

SENTENCE = "Ada\tB-PER\nspoke\tO\n\n"
ADD_OR_REMOVE = DP_SGD.neighbours


def config(**fields: object) -> SimulationConfig:
    return SimulationConfig.from_flat({"data_fraction": 0.1, "batch_size": 4, "partition": "independent"} | fields)


def stated(settings: Settings, made: SimulationConfig) -> str:
    plan = plan_of(made, corpora.of_run(made, settings))
    return privacy_spent(plan, plan.steps, len(plan.rounds)).neighbouring


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", data_dir=None, store_url="sqlite://")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ADD_OR_REMOVE),
        ({"partition": "random"}, ZERO_OUT),
        ({"partition": "random", "data_fraction": 1.0}, ADD_OR_REMOVE),
        ({"partition": "random", "data_fraction": 1.0, "clients": 3}, ZERO_OUT),
        ({"partition": "random", "data_fraction": 1.0, "rounds": 3}, ADD_OR_REMOVE),
        ({"partition": "random", "data_fraction": 1.0, "rounds": 3, "schedule": "incremental"}, ZERO_OUT),
        ({"rounds": 3, "schedule": "incremental"}, ADD_OR_REMOVE),
        ({"clients": 3, "rounds": 2, "schedule": "incremental"}, ADD_OR_REMOVE),
        ({"clients": 3, "partition": "dirichlet", "skew": 5.0}, ADD_OR_REMOVE),
        ({"clients": 3, "partition": "unequal"}, ZERO_OUT),
        ({"clients": 3, "mechanism": "dp-fedavg"}, DP_FEDAVG.neighbours),
        ({"clients": 3, "mechanism": "dp-fedavg", "partition": "random"}, DP_FEDAVG.neighbours),
    ],
)
def test_adjacency_follows_from_the_assignment(settings: Settings, fields: dict[str, object], expected: str) -> None:
    assert stated(settings, config(**fields)) == expected


def test_a_file_that_this_program_splits_has_zero_out_adjacency(settings: Settings, tmp_path: Path) -> None:
    """One more sentence at its start moves others to another part."""
    single, folder = tmp_path / "single.conll", tmp_path / "parts"
    single.write_text(SENTENCE * 60)
    folder.mkdir()
    for part in ("train", "valid", "test"):
        (folder / f"{part}.conll").write_text(SENTENCE * 60)
    assert stated(settings, config(corpus=str(single), data_fraction=1.0)) == ZERO_OUT
    assert stated(settings, config(corpus=str(folder), data_fraction=1.0)) == ADD_OR_REMOVE
    (folder / "valid.conll").unlink()
    assert stated(settings, config(corpus=str(folder), data_fraction=1.0)) == ZERO_OUT


@pytest.mark.parametrize(
    ("partition", "expected"),
    [("random", DISJOINT), ("unequal", DISJOINT), ("independent", INDEPENDENT), ("dirichlet", INDEPENDENT)],
)
def test_the_partition_decides_what_is_said_of_clients(
    settings: Settings, tmp_path: Path, partition: str, expected: str
) -> None:
    """A split of the corpus by this program moves sentences too, but does not change who gets a sentence."""
    single = tmp_path / "single.conll"
    single.write_text("".join(f"Ada{number}\tB-PER\nspoke\tO\n\n" for number in range(200)))
    made = config(corpus=str(single), data_fraction=1.0, clients=3, partition=partition, skew=5.0)
    plan = plan_of(made, corpora.of_run(made, settings))
    spent = privacy_spent(plan, plan.steps, 1)
    assert spent.neighbouring == ZERO_OUT
    assert {DISJOINT, INDEPENDENT} & set(spent.assumptions) == {expected}


def test_client_of_a_document_depends_on_sizes_of_documents_only(settings: Settings, tmp_path: Path) -> None:
    """Other words in the same places do not change it; another size of a document moves others."""
    owners = []
    for word, sizes in (("Ada", (9, 8, 7, 3, 2, 1)), ("Eve", (9, 8, 7, 3, 2, 1)), ("Ada", (1, 8, 7, 3, 2, 1))):
        folder = tmp_path / f"{word}-{sizes[0]}"
        folder.mkdir()
        for part in ("train", "valid", "test"):
            documents = ("-DOCSTART-\tO\n\n" + SENTENCE.replace("Ada", word) * size for size in sizes)
            (folder / f"{part}.conll").write_text("".join(documents))
        made = config(corpus=str(folder), data_fraction=1.0, clients=2, partition="document", batch_size=1)
        handle = corpora.of_run(made, settings)
        plan, documents_of = plan_of(made, handle), handle.layout.documents
        assert DISJOINT in privacy_spent(plan, plan.steps, 1).assumptions
        assert documents_of is not None
        owners.append({client: {int(documents_of[index]) for index in s} for client, s in enumerate(plan.sentences)})
    assert owners[0] == owners[1] != owners[2]


@pytest.mark.parametrize("mechanism", ["dp-sgd", "dp-fedavg"])
def test_the_split_of_a_corpus_is_an_assumption_on_sentences(
    settings: Settings, tmp_path: Path, mechanism: str
) -> None:
    single, folder = tmp_path / "single.conll", tmp_path / "parts"
    single.write_text(SENTENCE * 60)
    folder.mkdir()
    for part in ("train", "valid", "test"):
        (folder / f"{part}.conll").write_text(SENTENCE * 60)
    for corpus, split in ((single, True), (folder, False)):
        made = config(corpus=str(corpus), data_fraction=1.0, clients=3, mechanism=mechanism)
        plan = plan_of(made, corpora.of_run(made, settings))
        spent = privacy_spent(plan, plan.steps, 1)
        assert (SPLIT in spent.assumptions) == (split and mechanism == "dp-sgd")
        assert with_adjacency(spent, plan) == spent
        assert SPLIT not in with_adjacency(spent, replace(plan, split=False)).assumptions


@pytest.mark.parametrize(("copies", "moves"), [(1, False), (2, True)])
def test_emptying_an_equal_sentence_may_change_the_split_by_a_seed(copies: int, moves: bool) -> None:
    """A single sentence keeps its place and all others keep theirs."""
    sentences = [Sentence((f"Ada{number // copies}",), ("B-PER",)) for number in range(200)]
    emptied = [Sentence((), ()), *sentences[1:]]
    before, after = (Counter(split_by_seed(each, 3, "x")["train"]) for each in (sentences, emptied))
    changed = sum(((before - after) + (after - before)).values())
    assert (changed > 2) == moves


@pytest.mark.parametrize(
    ("name", "expected"),
    [("conll2003", False), ("synthetic", False), ("bc5cdr", False), ("ade", True), ("ade@2", True), ("btc", True)],
)
def test_named_corpora_state_their_split_without_their_files(settings: Settings, name: str, expected: bool) -> None:
    handle = corpora.resolve(name, settings)
    assert handle.split_by_position == expected
    assert corpora.resolve(f"{name} + psytar@1", settings).split_by_position


def test_independent_partition_needs_no_identity_where_it_has_no_effect() -> None:
    central = SimulationConfig()
    same = SimulationConfig.from_flat(central.flat() | {"partition": "independent"})
    assert same == central
    assert run_id(same, "0") == run_id(central, "0")
    silos = SimulationConfig.from_flat({"corpus": "synthetic + btc", "partition": "independent"})
    assert silos == SimulationConfig(corpus="synthetic + btc")
    assert config(clients=3).federation.partition == "independent"


def test_label_skew_of_earlier_versions_is_the_dirichlet_partition() -> None:
    assert config(clients=3, partition="label-skew") == config(clients=3, partition="dirichlet")
    assert "label-skew" not in PARTITIONS


EARLIER = {
    "clients": "Each sentence is held by one client alone; ε is that of the client who pays most, over all its rounds.",
    "clients of 0.8": "Each sentence belongs to one client; ε is that of the worst-case client, over all its rounds.",
    "silos": "Each sentence is used by one client (silo) only: 12 sentences that another silo also has, ignoring case "
    "and punctuation, were left out. Silos compare checksums to find them; ε is that of the worst-case silo.",
}


@pytest.mark.parametrize("kind", EARLIER)
def test_earlier_records_of_assigned_sentences_state_zero_out_adjacency(kind: str) -> None:
    stored = PrivacySpent(epsilon=1.0, delta=1e-5).to_dict() | {"assumptions": [EARLIER[kind]]}
    read = PrivacySpent.from_dict(stored)
    assert read.neighbouring == ZERO_OUT
    assert read.assumptions[0] not in EARLIER.values()
    assert PrivacySpent.from_dict(read.to_dict()) == read
    assert PrivacySpent.from_dict(stored | {"assumptions": []}).neighbouring == ADD_OR_REMOVE


def test_earlier_label_skew_states_that_tags_are_not_protected() -> None:
    earlier = PrivacySpent(epsilon=1.0, delta=1e-5).to_dict() | {"assumptions": [EARLIER["clients"]]}
    stored = replace(record(0), privacy=PrivacySpent.from_dict(earlier))
    read = restated(config(clients=3, partition="label-skew"), stored)
    assert read.privacy.assumptions == (BY_TAGS,)
    assert read.privacy.neighbouring == ZERO_OUT
    assert restated(config(clients=3, partition="label-skew"), read) == read
    assert BY_TAGS not in restated(config(clients=3, partition="random"), stored).privacy.assumptions


def test_records_of_independent_clients_keep_their_adjacency(settings: Settings) -> None:
    made = config(clients=3)
    plan = plan_of(made, corpora.of_run(made, settings))
    spent = privacy_spent(plan, plan.steps, 1)
    assert PrivacySpent.from_dict(spent.to_dict()) == spent


def test_sizes_of_independent_clients_are_those_of_the_plan(settings: Settings) -> None:
    made = config(clients=3, data_fraction=1.0)
    handle = corpora.of_run(made, settings)
    plan = federated_plan(made, 4400, lambda: handle.layout, lambda: seeded_secrets(made, handle.checksum))
    assert [part.examples for part in plan.parts] == list(map(len, plan.shards))
    assert len({part.examples for part in plan.parts}) == 3
    assert sum(part.examples for part in plan.parts) == 4400


def clients_of(settings: Settings, folder: Path, made: SimulationConfig) -> list[Counter[tuple[str, ...]]]:
    """Return the sentences of each part of each client, as they are trained on."""
    handle = corpora.resolve(str(folder), settings)
    plan, train = plan_of(made, handle), handle.load().train
    return [Counter(train[plan.chosen[index]].tokens for index in part.tolist()) for part in plan.sentences]


@pytest.mark.parametrize("partition", ["independent", "dirichlet", "random"])
@pytest.mark.parametrize("removed", [0, 40, 119])
def test_corpora_that_differ_in_one_sentence_differ_in_one_part(
    settings: Settings, tmp_path: Path, partition: str, removed: int
) -> None:
    """The sentence is at the start, in the middle or at the end of the file, and others have the same words."""
    sentences = [f"Ada{number % 50}\tB-PER\nspoke\tO\n\n" for number in range(120)]
    parts = []
    for name, kept in (("with", sentences), ("without", sentences[:removed] + sentences[removed + 1 :])):
        folder = tmp_path / name
        folder.mkdir()
        for part, content in {"train": kept, "valid": sentences[:9], "test": sentences[:9]}.items():
            (folder / f"{part}.conll").write_text("".join(content))
        fields = {"clients": 3, "rounds": 2, "schedule": "incremental", "skew": 5.0, "data_fraction": 0.8}
        parts.append(clients_of(settings, folder, config(corpus=str(folder), partition=partition, **fields)))
    differences = [(one - other) + (other - one) for one, other in zip(*parts, strict=True)]
    changed = sum(sum(each.values()) for each in differences)
    if partition == "random":
        assert changed > 20, "the sizes are fixed, so that many sentences move"
    else:
        assert changed <= 1
        assert set().union(*differences) <= {(f"Ada{removed % 50}", "spoke")}
