"""The command line: what other programs rely on, and what bad input gets."""

import functools
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from engine import corpus, simulation
from engine.command_line.verbs import main
from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.embeddings import apart
from engine.experiments import recipes
from engine.reports.commands import command_line
from engine.runs import Runs, inventory
from tests.engine.runs_for_tests import record

ROOT = Path(__file__).resolve().parents[3]
SMALL = ["--corpus", "synthetic", "--data-fraction", "0.05", "--batch-size", "8", "--epochs", "1", "--hidden-size", "8"]


@pytest.fixture
def shell(trained_settings, monkeypatch, capsys):
    """Runs a command in this process and gives its exit code, standard output and standard error."""
    monkeypatch.setenv("EPSILON_HOME", str(trained_settings.home))
    monkeypatch.setenv("EPSILON_STORE_URL", trained_settings.store_url)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["engine", *arguments])
        code = main()
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_simulate_prints_one_object_a_line(shell):
    code, out, _ = shell("simulate", *SMALL, "--noise-multiplier", "1", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(lines) >= 20
    for line in lines:
        assert {"round", "epsilon", "delta", "precision", "recall", "f1", "loss", "seconds"} <= set(line)
    assert [line["final"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert {"precision", "recall", "f1", "strict", "relaxed", "token"} <= set(lines[-1]["test"])
    assert lines[-1]["epsilon"] > lines[0]["epsilon"] > 0
    check = lines[-1]["noise_check"]
    assert check["failed"] is False
    assert check["noise_std"] == pytest.approx(1.5, abs=check["noise_tolerance"])


def test_epsilon_without_noise_is_null_in_json(shell):
    _, out, _ = shell("simulate", *SMALL, "--noise-multiplier", "0", "--json")
    assert json.loads(out.splitlines()[0])["epsilon"] is None


def test_a_language_model_of_ones_own_is_asked_for_by_a_word_and_called_by_its_label(shell, monkeypatch, tmp_path):
    asked = ("simulate", *SMALL, "--features", "contextual", "--language-model")
    code, _, said = shell(*asked, "own")
    assert code != 0
    assert "language_model='own', but EPSILON_LANGUAGE_MODEL names no folder, expected that of a BERT" in said
    monkeypatch.setenv("EPSILON_LANGUAGE_MODEL", str(tmp_path))
    code, _, said = shell(*asked, "own")
    assert code != 0
    assert "config.json is missing" in said
    monkeypatch.delenv("EPSILON_LANGUAGE_MODEL")
    label = "bert-3x128-0123456789abcdef"
    monkeypatch.setattr("engine.embeddings.own_model.installed", lambda settings: ["all-MiniLM-L6-v2", label])
    for name in ("own", label):
        code, _, said = shell(*asked, name)
        assert code != 0
        assert f"language_model='{label}' is not here: EPSILON_LANGUAGE_MODEL names no folder" in said


def test_simulate_for_people(shell):
    code, out, _ = shell("simulate", *SMALL)
    assert code == 0
    assert "Test scores" in out
    assert "entities, strict" in out
    assert "Noise check passed" in out


def test_a_chain_with_well_formed_tags_and_summed_losses(shell):
    options = ["--tagger", "bilstm-crf", "--well-formed", "--scheme", "bioes", "--loss", "sum"]
    code, out, _ = shell("simulate", *SMALL, *options, "--noise-multiplier", "0", "--json")
    assert code == 0
    assert json.loads(out.splitlines()[-1])["final"]


def test_a_second_opinion(shell):
    code, out, _ = shell("second-opinion", *SMALL, "--batch-size", "2", "--steps", "1", "--json")
    assert code == 0
    assert json.loads(out)["agrees"]
    code, _, err = shell("second-opinion", *SMALL, "--noise-multiplier", "0")
    assert code == 2
    assert "noise_multiplier=0" in err


def test_platforms_with_corpora_of_their_own(shell, tmp_path):
    file = tmp_path / "drugs.conll"
    file.write_text("Take O\nAspirin B-Drug\n\n" * 40)
    platforms = ["--platform", "synthetic", "--platform", str(file)]
    small = [
        "--data-fraction",
        "0.05",
        "--epochs",
        "1",
        "--hidden-size",
        "8",
        "--rounds",
        "2",
        "--scheme",
        "bio2,bioes",
    ]
    code, out, _ = shell("simulate", *platforms, *small, "--json")
    last = json.loads(out.splitlines()[-1])
    assert code == 0
    assert [platform["name"] for platform in last["platforms"]] == ["synthetic", str(file)]
    assert list(last["platforms"][1]["test"]["strict"]["per_type"]) == ["Drug"]
    assert last["epsilon"] == max(platform["epsilon"] for platform in last["platforms"])
    code, out, _ = shell("simulate", *platforms, *small)
    assert f"{file}: ε {last['platforms'][1]['epsilon']:.2f}" in out


def test_a_path_may_be_a_file_or_a_folder(shell, tmp_path):
    sentences = "".join(f"word{i} O\nName{i} B-PER\n\n" for i in range(60))
    (tmp_path / "one.conll").write_text(sentences)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("train.txt", "test.txt"):
        (folder / name).write_text(sentences)
    for path in (tmp_path / "one.conll", folder):
        code, out, _ = shell("simulate", "--corpus", str(path), "--batch-size", "8", "--epochs", "1", "--json")
        assert code == 0
        assert json.loads(out.splitlines()[-1])["final"]


@pytest.mark.parametrize(
    ("accountant", "expected"), [("pld", 0.734), ("rdp", 1.032), ("rdp-classic", 1.367)], ids=lambda value: str(value)
)
def test_epsilon_of_a_noise_multiplier(shell, accountant, expected):
    code, out, _ = shell(
        *("epsilon", "--examples", "14987", "--batch-size", "32", "--epochs", "10", "--noise-multiplier", "1"),
        *("--delta", "1e-5", "--accountant", accountant, "--json"),
    )
    fields = json.loads(out)
    assert code == 0
    assert fields["epsilon"] == pytest.approx(expected, abs=0.003)
    assert {"delta", "noise_multiplier", "accountant", "steps"} <= set(fields)


def test_an_audit_of_what_is_known_for_programs(shell):
    code, out, _ = shell("audit", "--mechanism", "gaussian", "--epsilon", "3", "--repetitions", "5", "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found) == {"coverage", "bound_median", "epsilon"}
    assert found["epsilon"] == 3
    assert 1.5 < found["bound_median"] <= 3


AUDITED = ("--corpus", "synthetic", "--tagger", "linear-crf", "--batch-size", "64", "--epochs", "2")


def test_an_audit_of_a_training(shell):
    code, out, _ = shell("audit", *AUDITED, "--canaries", "200", "--json")
    found = json.loads(out)
    assert code == 0
    for kind in ("white", "black"):
        assert found[kind]["contradicted"] is False
        assert found[kind]["check_failed"] is False
        assert found[kind]["bound"] <= found[kind]["claimed"]
    assert found["membership"] is None
    code, out, _ = shell("audit", *AUDITED, "--canaries", "200")
    assert code == 0
    assert "The claim is not contradicted. That proves nothing: another attack" in out


def test_an_audit_of_membership_is_kept(shell, settings):
    free = (*AUDITED, "--noise-multiplier", "0", "--data-fraction", "0.1")
    code, out, _ = shell("audit", *free, "--canaries", "100", "--references", "3", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["white"]["claimed"] is None
    assert found["membership"]["claimed"] is None
    assert {curve["attack"] for curve in found["membership"]["curves"]} == {"loss", "LiRA", "RMIA", "Bayes"}
    (kept,) = Runs(settings).audits().values()
    assert kept.run_id == found["run_id"]
    assert kept.membership.references == 3
    assert math.isinf(kept.white.claimed)
    assert kept.command.endswith("--canaries 100 --references 3")
    code, _, err = shell("audit", *AUDITED, "--canaries", "0", "--references", "2")
    assert code == 2
    assert "references=2, expected 3 to 256" in err


def test_noise_multiplier_for_an_epsilon(shell):
    target = ("--examples", "14041", "--batch-size", "32", "--epochs", "10", "--delta", "1e-5", "--json")
    _, out, _ = shell("epsilon", *target, "--target-epsilon", "1", "--accountant", "rdp")
    sigma = json.loads(out)["noise_multiplier"]
    _, out, _ = shell("epsilon", *target, "--noise-multiplier", str(sigma), "--accountant", "rdp")
    assert json.loads(out)["epsilon"] == pytest.approx(1, abs=0.01)


PAPERS = ("epsilon", "--examples", "14041", "--batch-size", "32", "--epochs", "10", "--noise-multiplier", "1")


def test_epsilon_of_somebody_named_in_several_sentences(shell):
    code, out, _ = shell(*PAPERS, "--group-size", "10", "--json")
    fields = json.loads(out)
    assert code == 0
    assert fields["group_size"] == 10
    assert fields["epsilon"] == pytest.approx(0.762, abs=1e-3)
    assert fields["group_epsilon"] == pytest.approx(10.47, abs=0.01)
    _, out, _ = shell(*PAPERS, "--group-size", "10")
    assert "Somebody named in 10 of the sentences: ε = 10.47" in out
    _, out, _ = shell(*PAPERS, "--json")
    assert "group_epsilon" not in json.loads(out)


class TestScore:
    def test_levels_and_averages(self, shell, tmp_path):
        (tmp_path / "gold").write_text("a B-PER\nb I-PER\nc O\n\nd B-LOC\ne O\n")
        (tmp_path / "predicted").write_text("a B-PER\nb O\nc O\n\nd B-LOC\ne O\n")
        code, out, _ = shell("score", str(tmp_path / "gold"), str(tmp_path / "predicted"), "--json")
        fields = json.loads(out)
        assert code == 0
        assert fields["strict"]["f1"] == 0.5
        assert fields["relaxed"]["f1"] == fields["many_to_many"]["f1"] == 1.0
        assert fields["many_to_many"]["per_type"]["PER"]["found"] == 1
        assert fields["strict"]["per_type"]["LOC"]["f1"] == 1.0
        assert {"precision", "recall", "f1", "macro_f1", "weighted_f1"} <= set(fields["strict"])
        assert fields["token"]["with_o"]["f1"] == pytest.approx(0.8)

    def test_ill_formed_predictions_are_not_repaired(self, shell, tmp_path):
        """seqeval's default would count this as right."""
        (tmp_path / "gold").write_text("a B-PER\nb I-PER\nc B-LOC\n")
        (tmp_path / "predicted").write_text("a I-PER\nb I-PER\nc B-LOC\n")
        _, out, _ = shell("score", str(tmp_path / "gold"), str(tmp_path / "predicted"), "--json")
        assert json.loads(out)["strict"]["per_type"]["PER"]["f1"] == 0

    def test_another_scheme_is_read_as_what_it_is(self, shell, tmp_path):
        (tmp_path / "gold").write_text("a I-PER\nb I-PER\nc O\nd I-LOC\n")
        (tmp_path / "predicted").write_text("a I-PER\nb I-PER\nc O\nd I-LOC\n")
        _, out, _ = shell("score", str(tmp_path / "gold"), str(tmp_path / "predicted"), "--json")
        assert json.loads(out)["strict"]["f1"] == 1.0

    def test_files_of_other_sentences_are_refused(self, shell, tmp_path):
        (tmp_path / "gold").write_text("a B-PER\n\nb O\n")
        (tmp_path / "fewer").write_text("a B-PER\n")
        (tmp_path / "other").write_text("a B-PER\n\nc O\n")
        for name, words in (("fewer", "expected 2"), ("other", "other tokens than gold in sentence 2")):
            code, _, err = shell("score", str(tmp_path / "gold"), str(tmp_path / name))
            assert code == 2
            assert words in err


EPSILON = ["epsilon", "--examples", "100", "--batch-size", "10", "--epochs", "1"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["simulate", *SMALL, "--noise-multiplier", "-1"], "noise_multiplier=-1.0"),
        (["simulate", *SMALL, "--noise-multiplier", "nan"], "noise_multiplier=nan"),
        (["simulate", *SMALL, "--noise-multiplier", "inf"], "noise_multiplier=inf"),
        (["simulate", *SMALL, "--noise-multiplier", "much"], "noise_multiplier='much'"),
        (["simulate", *SMALL, "--clip-norm", "0"], "clip_norm=0.0"),
        (["simulate", *SMALL, "--clip-norm", "-2"], "clip_norm=-2.0"),
        (["simulate", "--corpus", "synthetic", "--data-fraction", "0"], "data_fraction=0.0"),
        (["simulate", "--corpus", "synthetic", "--data-fraction", "1.5"], "data_fraction=1.5"),
        (["simulate", "--corpus", "synthetic", "--data-fraction", "0.00001"], "data_fraction=1e-05 leaves none"),
        (["simulate", "--corpus", "synthetic", "--batch-size", "5000"], "batch_size=5,000, expected at most the 4,400"),
        (["simulate", *SMALL, "--delta", "0"], "delta=0.0"),
        (["simulate", *SMALL, "--delta", "1"], "delta=1.0"),
        (["simulate", *SMALL, "--sampling", "random"], "sampling='random'"),
        (["simulate", *SMALL, "--tagger", "gpt"], "tagger='gpt'"),
        (["simulate", *SMALL, "--clients", "3", "--participants", "4"], "participants=4"),
        (["simulate", *SMALL, "--seed", "-1"], "seed=-1"),
        (["simulate", *SMALL, "--scheme", "iob1"], "scheme='iob1'"),
        (["simulate", *SMALL, "--scheme", "bio2,bioes"], "scheme='bio2,bioes', expected one"),
        (["simulate", *SMALL, "--embeddings", "word2vec"], "embeddings='word2vec'"),
        (["simulate", "--corpus", "nowhere"], "corpus='nowhere'"),
        (["simulate"], "expected either --corpus once, or --platform twice or more"),
        (["simulate", "--platform", "synthetic"], "--platform twice or more"),
        (["simulate", "--corpus", "synthetic", "--platform", "btc", "--platform", "wnut17"], "either --corpus once"),
        (["simulate", "--corpus", "a + b"], "'a + b' is no name of a corpus"),
        (["simulate", "--platform", "synthetic", "--platform", "synthetic"], "another corpus for each platform"),
        (["simulate", "--platform", "synthetic", "--platform", "nowhere"], "corpus='nowhere'"),
        (["simulate", *SMALL[2:], "--platform", "synthetic", "--platform", "x", "--clients", "3"], "clients=3"),
        (["simulate", *SMALL, "--surprise"], "--surprise"),
        (["submit", "--corpus", "nowhere"], "corpus='nowhere'"),
        (["runs", "show", "0123456789abcdef"], "0123456789abcdef"),
        (["simulate", *SMALL, "--mechanism", "local"], "clients=1"),
        (["simulate", *SMALL, "--clients", "300"], "clients=300, expected at most the 220"),
        (["simulate", *SMALL, "--clients", "2", "--partition", "natural"], "has no sections"),
        (["paper", "other"], "paper='other'"),
        (["paper", "--seeds", "0"], "seeds='0'"),
        (["paper", "fedner", "--corpus", "ade"], "corpus='ade'"),
        (["simulate", "--corpus", "synthetic", "--private-scope", "hospital"], "private_scope='hospital'"),
        (
            ["simulate", "--corpus", "synthetic", "--private-scope", "platform", "--mechanism", "dp-fedavg"],
            "private_scope='platform', but mechanism='dp-fedavg'",
        ),
        (["simulate", "--corpus", "synthetic", "--masked", "0.5"], "masked=0.5"),
        (["paper", "fedner", "--table", "table6"], "table='table6'"),
        (["sweep", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["cancel", "nothing"], "nothing"),
        (["publish", "nothing"], "nothing"),
        (["fetch", "conll2003"], "licence"),
        (["score", "nowhere", "nowhere"], "nowhere cannot be read"),
        ([*EPSILON], "exactly one"),
        ([*EPSILON, "--noise-multiplier", "1", "--target-epsilon", "1"], "exactly one"),
        ([*EPSILON, "--noise-multiplier", "1", "--accountant", "magic"], "accountant='magic'"),
        ([*EPSILON, "--noise-multiplier", "1", "--group-size", "0"], "group_size=0, expected 1 to 1,000 sentences"),
        ([*EPSILON, "--noise-multiplier", "1", "--group-size", "1001"], "group_size=1,001, expected 1 to 1,000"),
        ([*EPSILON, "--noise-multiplier", "1", "--group-size", "ten"], "group_size='ten'"),
        ([*EPSILON, "--noise-multiplier", "1", "--group-size", "2", "--accountant", "rdp"], "accountant='rdp'"),
        ([*EPSILON, "--target-epsilon", "-1"], "target_epsilon=-1"),
        ([*EPSILON, "--target-epsilon", "nan"], "target_epsilon=nan"),
        (["epsilon", "--examples", "0", "--batch-size", "1", "--epochs", "1", "--noise-multiplier", "1"], "examples=0"),
        (["paper", "--table", "table9"], "table='table9'"),
        (["again", "0000000000000000"], "0000000000000000"),
        (["audit", "--mechanism", "gaussian", "--epsilon", "3", "--canaries", "4"], "canaries=4, expected at least 5"),
        (["cluster", "worker"], "EPSILON_SCHEDULER is not set"),
        (["cluster", "scheduler"], "EPSILON_CLUSTER_KEY is not set"),
        (["cluster", "show"], "EPSILON_SCHEDULER is not set"),
        (["cluster", "key", "/"], "key=/ is there already"),
        (["no-such-verb"], "no-such-verb"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(shell, arguments, words):
    code, out, err = shell(*arguments)
    assert code == 2, err
    assert words in err
    assert out == ""
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty", b"", "is empty"),
        ("outside", b"a O\nb O\n" * 20, "only the tag O"),
        ("single", b"a\nb\n", "one column"),
        ("long", b"x" * 10_000_000 + b" O\n", "bytes in line 1"),
        ("binary", bytes(range(256)) * 9, "binary byte"),
    ],
)
def test_a_corpus_file_that_cannot_be_read(shell, tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    code, _, err = shell("simulate", "--corpus", str(tmp_path / name))
    assert code == 2
    assert words in err
    assert name in err


def test_corpora_lists_what_is_here_and_what_can_be_fetched(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("EPSILON_DATA_DIR", str(tmp_path))
    code, out, _ = shell("corpora", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert list(rows) == [
        "synthetic",
        "conll2003",
        "wnut17",
        "btc",
        "wikigold",
        "ade",
        "psytar",
        "bc5cdr",
        "ncbi_disease",
    ]
    assert rows["synthetic"]["available"]
    assert not rows["conll2003"]["fetchable"]
    assert rows["wnut17"]["fetchable"]
    assert rows["conll2003"]["fitted_on"] is None
    nothing = {"shared": 0, "short": 0, "share": 0.0}
    assert rows["synthetic"]["fitted_on"]["train"] == {"sentences": 4_400, **nothing}


def test_corpora_that_features_were_fitted_on_are_told(shell, trained_settings, tmp_path, monkeypatch):
    monkeypatch.setenv("EPSILON_DATA_DIR", str(tmp_path))
    sentences = corpus.resolve("synthetic", trained_settings).load()
    fitted = [sentence.tokens for sentence in (*sentences.train[:44], *sentences.test[:500])]
    monkeypatch.setattr(apart, "fitted_on", lambda part: apart.checksums(fitted))
    line = next(line for line in shell("corpora")[1].splitlines() if line.startswith("synthetic"))
    assert "are among those of Wikigold that features in context were fitted on: no ε holds with these" in line
    monkeypatch.setattr(simulation, "simulate", lambda *_, **__: iter([record(0)]))
    _, out, err = shell("simulate", *SMALL, "--features", "contextual")
    assert out.startswith("  0  step")
    assert "of 4,400 training sentences (1." in err
    assert "of 1,000 test sentences (5" in err
    assert shell("simulate", *SMALL)[2] == ""


def test_a_search_on_the_corpus_itself_wants_a_total_first(shell):
    asked = ("tune", "--epsilon", "3", "--corpus", "synthetic", "--development", "synthetic")
    code, _, err = shell(*asked)
    assert code == 2
    assert err.startswith("budget=None, expected ε of a total that is fixed beforehand (--budget)")


def test_an_empty_list_says_how_to_begin(shell, trained_settings, monkeypatch):
    from engine.settings import Settings

    monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls: trained_settings))
    assert "No runs yet" in shell("runs")[1]
    assert json.loads(shell("runs", "--json")[1]) == []


@pytest.mark.parametrize(
    "verb",
    [
        "simulate",
        "second-opinion",
        "epsilon",
        "score",
        "submit",
        "runs",
        "cancel",
        "publish",
        "corpora",
        "fetch",
        "paper",
        "again",
        "tune",
    ],
)
def test_every_verb_has_help(shell, verb):
    code, out, _ = shell(verb, "--help")
    assert code == 0
    assert "Usage" in out


def test_the_store_failing_is_said(shell, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EPSILON_STORE_URL", f"sqlite:///{tmp_path / 'file' / 'runs.sqlite'}")
    code, _, err = shell("submit", *SMALL)
    assert code == 1
    assert "runs.sqlite" in err
    assert len(err.strip().splitlines()) == 1


def test_the_program_itself(tmp_path):
    """As a user calls it: a process of its own, its exit code, and nothing but the sentence on standard error."""
    called = subprocess.run(
        [sys.executable, "-m", "engine", "simulate", "--corpus", "synthetic", "--noise-multiplier", "-1"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert called.returncode == 2
    assert called.stdout == ""
    assert called.stderr == "noise_multiplier=-1.0, expected a number from 0 to 10000\n"


@pytest.mark.parametrize(
    "config",
    [
        SimulationConfig(),
        SimulationConfig(corpus="a b's", seed=3, privacy=PrivacyConfig(noise_multiplier=0.123456789, delta=1e-7)),
        SimulationConfig(privacy=PrivacyConfig(noise_multiplier=0, clip_norm=1.5), training=TrainingConfig(epochs=0.5)),
        SimulationConfig(privacy=PrivacyConfig(clip_norm=0.3, sampling="shuffle"), data_fraction=1 / 3),
        SimulationConfig.from_flat(
            {"clients": 9, "participants": 3, "rounds": 4, "partition": "label-skew", "skew": 0.1, "weighting": "equal"}
        ),
        SimulationConfig.from_flat({"clients": 4, "mechanism": "dp-fedavg", "clipping": "per-layer"}),
        SimulationConfig.from_flat({"clients": 2, "rounds": 3, "schedule": "incremental"}),
        recipes.good_practice("conll2003", 14_041, 1.0),
        SimulationConfig.from_flat({"corpus": "synthetic + b's + btc", "rounds": 3}),
    ],
)
def test_the_command_line_of_a_run_gives_that_run(shell, config, monkeypatch):
    """What pages and provenance print, read back by the command line itself."""
    import shlex

    seen = []
    monkeypatch.setattr("engine.simulation.simulate", lambda asked, *_, **__: seen.append(asked) or iter(()))
    code, _, err = shell(*shlex.split(command_line(config))[3:], "--json")
    assert code == 0, err
    assert seen == [config]


def test_a_federated_run_says_its_rounds(shell):
    code, out, _ = shell("simulate", *SMALL, "--clients", "3", "--rounds", "2", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["federation"]["round"] for line in lines] == [1, 2]
    assert lines[-1]["federation"]["bytes_up"] == 2 * lines[0]["federation"]["bytes_up"]
    _, text, _ = shell("simulate", *SMALL, "--clients", "3")
    assert "round 1 of 1, 3 clients" in text


def test_the_papers_tables_for_programs_and_people(shell):
    code, out, _ = shell("paper", "dp-fl-ner", "--corpus", "synthetic", "--seeds", "1", "--json")
    cells = json.loads(out)["cells"]
    assert code == 0
    assert len(cells) == 32
    first = cells[0]
    assert (first["table"], first["tagger"], first["published"]["f1"]) == ("table1", "bilstm-tddl", 0.916)
    assert first["measured"]["f1_sd"] == 0.0
    assert 0.4 < first["measured"]["f1_mean"] < first["measured"]["published_metric"]["f1_mean"]
    assert first["seeds"] == [0]
    assert all(cell["measured"] for cell in cells), "every cell is published for the embedded corpus"
    _, text, _ = shell("paper", "--corpus", "synthetic", "--seeds", "1")
    assert "table6: Five clients" in text
    _, text, _ = shell("paper", "--corpus", "synthetic", "--seeds", "1", "--table", "table3")
    assert text.startswith("table3")
    assert "table4" not in text


def test_whom_noise_protects_can_be_said_in_a_word(shell):
    federation = (*SMALL, "--clients", "3", "--private-scope", "platform", "--noise-multiplier", "3")
    code, out, _ = shell("simulate", *federation, "--json")
    assert code == 0
    last = json.loads(out.splitlines()[-1])
    assert any("the server learns the sum alone" in each for each in last["assumptions"])
    assert last["noise_check"]["unit"] == "client"
    code, out, _ = shell("simulate", *SMALL, "--private-scope", "sentence", "--noise-multiplier", "3", "--json")
    assert json.loads(out.splitlines()[-1])["noise_check"]["unit"] == "sentence"


def test_fedners_table_and_figures_for_programs_and_people(shell):
    code, out, _ = shell("paper", "fedner", "--json")
    cells = json.loads(out)["cells"]
    assert code == 0
    assert {cell["table"] for cell in cells} == {"table2", "figure3", "figure4", "figure5", "figure6", "private"}
    first = cells[0]
    assert (first["method"], first["platform"], first["setting"]) == ("cnn-crf", "ade", {"trained": "alone"})
    assert first["published"]["strict_f1"] == 0.6146
    assert cells[1]["published"] is None, "PsyTAR is not in the paper"
    for cell in cells:
        if cell["measured"]:
            assert 0 <= cell["measured"]["strict_f1_mean"] <= cell["measured"]["relaxed_f1_mean"] < 1
            assert len(cell["seeds"]) == len(cell["runs"]) > 0
    _, text, _ = shell("paper", "fedner", "--table", "table2")
    assert text.startswith("table2: Methods on three platforms")
    assert "figure3" not in text


def test_a_sweep_that_is_wrong_stores_nothing(shell, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text("[grid]\nsigma = [1]\n")
    code, _, err = shell("sweep", str(path))
    assert code == 2
    assert "unknown field 'sigma'" in err
    path.write_text("[base]\ncorpus = 'synthetic'\n[grid]\nclients = [1, 100000]\n")
    code, _, err = shell("sweep", str(path))
    assert code == 2
    assert "clients=100,000, expected at most the 4,400" in err
    code, out, _ = shell("runs", "--json")
    assert not [run for run in json.loads(out) if not run["published"]]


def test_a_sweep_of_what_is_published_is_done_at_once(shell, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        "[base]\ncorpus = 'synthetic'\nnoise_multiplier = 0\n[grid]\ntagger = ['bilstm-tddl', 'bilstm-crf']\n"
    )
    code, out, _ = shell("sweep", str(path))
    assert code == 0
    assert out.startswith("2 runs, 2 of them done already")


def test_a_corpus_can_be_asked_what_it_holds(shell, data_dir, monkeypatch):
    monkeypatch.setenv("EPSILON_DATA_DIR", str(data_dir))
    monkeypatch.setattr(inventory, "take", functools.cache(inventory.take))  # reads all corpora, for both that ask
    code, out, _ = shell("corpora", "ade", "--json")
    found = json.loads(out)
    assert code == 0
    assert [part["sentences"] for part in found["parts"].values()] == [3418, 427, 427]
    assert sum(sum(part["names"].values()) for part in found["parts"].values()) == 10_948
    assert found["left_out"] == {"within or across a longer mention": 121}
    assert found["shared"]["bc5cdr"] > 50
    text = shell("corpora", "ade")[1]
    assert "Left out: 121 mentions within or across a longer mention." in text
    assert "Also in bc5cdr: " in text
    code, _, error = shell("corpora", "nowhere")
    assert code == 2
    assert "neither a known corpus" in error


LEDGER = ("ledger", "--examples", "14041", "--batch-size", "256", "--epochs", "10", "--noise-multiplier", "1")


def test_a_ledger_for_programs(shell):
    code, out, _ = shell(*LEDGER, "--json")
    found = json.loads(out)
    assert code == 0
    assert {"assumption", "claimed", "epsilon", "delta", "why"} <= set(found["rows"][0])
    by = {(row["assumption"], row["choice"]): row for row in found["rows"]}
    assert by["accountant", "Rényi, improved conversion"]["epsilon"] == pytest.approx(2.98, abs=0.01)
    assert all(row["epsilon"] == pytest.approx(2.62, abs=0.01) for row in found["rows"] if row["claimed"])
    assert by["seed", "known to the attacker"]["epsilon"] is None
    fixed = by["sampling", "fixed batches, sampling trusted for nothing, one sentence emptied"]
    assert fixed["epsilon"] == pytest.approx(17.9, abs=0.05)
    assert 10 < fixed["at_least"] < 11
    code, out, _ = shell(*LEDGER)
    assert "Promised: ε = 2.62 at δ = 1e-5" in out
    assert "a person with 10 sentences: ε = 42.3" in out


def test_a_ledger_takes_the_options_of_epsilon(shell):
    code, out, _ = shell(*LEDGER[:-2], "--target-epsilon", "2.62", "--group-size", "2", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["noise_multiplier"] == pytest.approx(1.0, abs=0.002)
    assert found["waterfall"][-1]["choice"] == "a person with 2 sentences"
    assert found["waterfall"][-1]["epsilon"] == pytest.approx(5.75, abs=0.02)
    code, out, _ = shell(*LEDGER, "--accountant", "rdp")
    assert "As you assume (Accountant Rényi, improved conversion): ε = 2.98" in out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("ledger",), "examples, batch_size, epochs: expected, or run=ID"),
        (LEDGER[:-2], "noise_multiplier, target_epsilon: expected exactly one of the two"),
        ((*LEDGER, "--target-epsilon", "3"), "noise_multiplier, target_epsilon: expected exactly one of the two"),
        (
            (*LEDGER[:-2], "--target-epsilon", "3", "--shuffled"),
            "target_epsilon: expected with batches drawn by chance",
        ),
        ((*LEDGER, "--accountant", "exact"), "accountant='exact'"),
        ((*LEDGER, "--group-size", "0"), "group_size=0"),
        ((*LEDGER, "--clients", "100"), "batch_size=256"),
        ((*LEDGER, "--delta", "2"), "delta=2"),
        (("ledger", "--run", "0123456789abcdef"), "0123456789abcdef"),
    ],
)
def test_a_ledger_of_what_cannot_be_is_refused(shell, changes, words):
    code, _, err = shell(*changes)
    assert code == 2
    assert words in err


def test_a_budget_is_set_shown_and_kept_to(shell):
    code, out, _ = shell("budget", "show", "synthetic")
    assert code == 0
    assert "has no budget" in out
    code, out, _ = shell("budget", "set", "synthetic", "--epsilon", "2", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["budget"]["epsilon"], found["budget"]["unit"], found["booked"]) == (2, "sentence", 0)
    assert {"title", "share", "times"} <= set(found["possible"][0])
    run = ("simulate", "--corpus", "synthetic", "--tagger", "linear-crf", "--features", "vectors", "--epochs", "0.1")
    code, _, error = shell(*run, "--noise-multiplier", "0.4")
    assert code == 2
    assert "The budget of synthetic is ε = 2 at δ = 1e-05 of each sentence. 0% of it is booked" in error
    code, _, _ = shell(*run, "--noise-multiplier", "5")
    assert code == 0
    code, out, _ = shell("budget", "show", "synthetic", "--json")
    (booking,) = json.loads(out)["bookings"]
    assert 0 < booking["booked"] < 1
    assert not booking["open"], "it counts whole"
    code, _, error = shell(
        "tune", "--epsilon", "1", "--corpus", "synthetic", "--development", "synthetic", "--trials", "1"
    )
    assert code == 2
    assert "has a budget" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "nowhere", "--epsilon", "1"), "neither a known corpus"),
        (("set", "synthetic", "--epsilon", "-1"), "epsilon=-1"),
        (("set", "synthetic", "--epsilon", "1", "--unit", "word"), "unit='word'"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(shell, arguments, words):
    code, _, error = shell("budget", *arguments)
    assert code == 2
    assert words in error
