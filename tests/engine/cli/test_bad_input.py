"""Bad input, help, and the program as a process: exit codes and one-sentence errors."""

import subprocess
import sys

import pytest

from engine import PLAIN_VERSION, PRIVATE_VERSION, VERSION
from engine.settings import REPOSITORY

SMALL = ["--corpus", "synthetic", "--data-fraction", "0.05", "--batch-size", "8", "--epochs", "1", "--hidden-size", "8"]
AUDITED = ["--corpus", "synthetic", "--tagger", "linear-crf", "--epochs", "2"]
TUNE = ["tune", "--epsilon", "3", "--corpus", "synthetic", "--public-corpus", "synthetic"]
EPSILON = ["epsilon", "--examples", "100", "--batch-size", "10", "--epochs", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", *SMALL, "--noise-multiplier", "-1"], "noise_multiplier=-1.0"),
        (["train", *SMALL, "--noise-multiplier", "nan"], "noise_multiplier=nan"),
        (["train", *SMALL, "--noise-multiplier", "inf"], "noise_multiplier=inf"),
        (["train", *SMALL, "--noise-multiplier", "much"], "noise_multiplier='much'"),
        (["train", *SMALL, "--clip-norm", "0"], "clip_norm=0.0"),
        (["train", *SMALL, "--clip-norm", "-2"], "clip_norm=-2.0"),
        (["train", "--corpus", "synthetic", "--data-fraction", "0"], "data_fraction=0.0"),
        (["train", "--corpus", "synthetic", "--data-fraction", "1.5"], "data_fraction=1.5"),
        (["train", "--corpus", "synthetic", "--data-fraction", "0.00001"], "data_fraction=1e-05"),
        (["train", "--corpus", "synthetic", "--batch-size", "5000"], "batch_size=5,000 … 4,400"),
        (["train", *SMALL, "--delta", "0"], "delta=0.0"),
        (["train", *SMALL, "--delta", "1"], "delta=1.0"),
        (["train", *SMALL, "--sampling", "random"], "sampling='random'"),
        (["train", *SMALL, "--tagger", "gpt"], "tagger='gpt'"),
        (["train", *SMALL, "--clients", "3", "--participants", "4"], "participants=4"),
        (["train", *SMALL, "--seed", "-1"], "seed=-1"),
        (["train", *SMALL, "--tag-scheme", "iob1"], "scheme='iob1'"),
        (["train", *SMALL, "--tag-scheme", "bio2,bioes"], "scheme='bio2,bioes'"),
        (["train", *SMALL, "--embeddings", "word2vec"], "embeddings='word2vec'"),
        (["train", "--corpus", "nowhere"], "corpus='nowhere'"),
        (["train"], "--corpus … --platform"),
        (["train", "--platform", "synthetic"], "--corpus … --platform"),
        (["train", "--corpus", "synthetic", "--platform", "btc", "--platform", "wnut17"], "--corpus … --platform"),
        (["train", "--corpus", "a + b"], "'a + b'"),
        (["train", "--platform", "synthetic", "--platform", "synthetic"], "corpus … synthetic … client"),
        (["train", "--platform", "synthetic", "--platform", "nowhere"], "corpus='nowhere'"),
        (["train", *SMALL[2:], "--platform", "synthetic", "--platform", "x", "--clients", "3"], "clients=3"),
        (["train", *SMALL, "--surprise"], "--surprise"),
        (["submit", "--corpus", "nowhere"], "corpus='nowhere'"),
        (["runs", "show", "0123456789abcdef"], "0123456789abcdef"),
        (["train", *SMALL, "--mechanism", "local"], "clients=1"),
        (["train", *SMALL, "--clients", "300"], "clients=300 … 212"),
        (["train", *SMALL, "--clients", "2", "--partition", "natural"], "partition='natural'"),
        (["replicate", "other"], "paper='other'"),
        (["replicate", "--seeds", "0"], "seeds='0'"),
        (["replicate", "fedner", "--corpus", "ade"], "corpus='ade'"),
        (["train", "--corpus", "synthetic", "--privacy-unit", "hospital"], "privacy_unit='hospital'"),
        (
            ["train", "--corpus", "synthetic", "--privacy-unit", "client", "--mechanism", "dp-fedavg"],
            "privacy_unit='client' … mechanism='dp-fedavg'",
        ),
        (["train", "--corpus", "synthetic", "--masked", "0.5"], "masked=0.5"),
        (["replicate", "fedner", "--table", "table6"], "table='table6'"),
        (["sweep", "nowhere.toml"], "nowhere.toml … No such file"),
        (["cancel", "nothing"], "nothing"),
        (["audit", *AUDITED, "--canaries", "0", "--shadow-models", "2"], "references=2 … 3 to 256"),
        (["audit", *AUDITED, "--epsilon", "3"], "epsilon=3 … mechanism='dp-sgd'"),
        (["audit", "--mechanism", "gaussian"], "epsilon … mechanism='gaussian'"),
        (TUNE, "budget=None … --budget"),
        (["publish", "nothing"], "nothing"),
        (["download", "conll2003"], "conll2003 … licence"),
        (["score", "nowhere", "nowhere"], "nowhere … No such file"),
        ([*EPSILON], "noise_multiplier … target_epsilon"),
        ([*EPSILON, "--noise-multiplier", "1", "--target-epsilon", "1"], "noise_multiplier … target_epsilon"),
        ([*EPSILON, "--noise-multiplier", "1", "--accountant", "magic"], "accountant='magic'"),
        ([*EPSILON, "--noise-multiplier", "1", "--group-size", "0"], "group_size=0 … 1 to 1,000"),
        ([*EPSILON, "--noise-multiplier", "1", "--group-size", "1001"], "group_size=1,001 … 1 to 1,000"),
        ([*EPSILON, "--noise-multiplier", "1", "--group-size", "ten"], "group_size='ten'"),
        ([*EPSILON, "--noise-multiplier", "1", "--group-size", "2", "--accountant", "rdp"], "accountant='rdp'"),
        ([*EPSILON, "--target-epsilon", "-1"], "target_epsilon=-1"),
        ([*EPSILON, "--target-epsilon", "nan"], "target_epsilon=nan"),
        (["epsilon", "--examples", "0", "--batch-size", "1", "--epochs", "1", "--noise-multiplier", "1"], "examples=0"),
        (["replicate", "--table", "table9"], "table='table9'"),
        (["rerun", "0000000000000000"], "0000000000000000"),
        (["audit", "--mechanism", "gaussian", "--epsilon", "3", "--canaries", "4"], "canaries=4 … 5"),
        (["cluster", "worker"], "EPSILON_SCHEDULER"),
        (["cluster", "scheduler"], "EPSILON_CLUSTER_KEY"),
        (["cluster", "show"], "EPSILON_SCHEDULER"),
        (["cluster", "key", "/"], "key=/"),
        (["backup", "/nowhere.zip"], "EPSILON_HOME= … nothing to save"),
        (["backup", "/"], "file=/ … expected a new file"),
        (["restore", "/nowhere.zip"], "EPSILON_HOME= … is not empty"),
        (["retention"], "--days N … EPSILON_RETENTION_DAYS"),
        (["retention", "--days", "0"], "days='0'"),
        (["export-person", "rita", "--out", "/"], "out=/ … expected a new file"),
        (["export-person", "rita", "--out", "/tmp/no.zip"], "name='rita' … nothing is held"),
        (["no-such-verb"], "no-such-verb"),
    ],
)
def test_bad_input_is_exit_code_2_and_one_sentence(shell, arguments, message):
    """The parts of ``message`` between ellipses are in the sentence."""
    code, out, err = shell(*arguments)
    assert code == 2, err
    assert all(part in err for part in message.split(" … ")), err
    assert out == ""
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"a O\nb O\n" * 20, "tag O", id="no-names"),
        pytest.param(b"a\nb\n", "one column", id="one-column"),
        pytest.param(b"x" * 10_000_000 + b" O\n", "bytes in line 1", id="long-line"),
        pytest.param(bytes(range(256)) * 9, "binary", id="binary"),
    ],
)
def test_an_unreadable_corpus_file_is_exit_code_2_and_its_name(shell, tmp_path, content, message):
    path = tmp_path / "wrong.conll"
    path.write_bytes(content)
    code, _, err = shell("train", "--corpus", path)
    assert code == 2
    assert message in err
    assert path.name in err


@pytest.mark.parametrize(
    "verb",
    "train crosscheck epsilon score submit sweep runs cancel publish corpora download replicate rerun tune audit "
    "export assumptions recommend report tag redact budget cluster".split(),
)
def test_help_of_each_verb_is_exit_code_0(shell, verb):
    code, out, _ = shell(verb, "--help")
    assert code == 0
    assert "Usage" in out


def test_version_prints_the_versions_of_program_and_engine(shell):
    code, out, _ = shell("--version")
    assert code == 0
    for version in (VERSION, PRIVATE_VERSION, PLAIN_VERSION):
        assert version in out


def test_bad_input_of_the_process_is_exit_code_2_and_one_sentence():
    called = subprocess.run(
        [sys.executable, "-m", "engine", "train", "--corpus", "synthetic", "--noise-multiplier", "-1"],
        capture_output=True, text=True, cwd=REPOSITORY, check=False,
    )  # fmt: skip
    assert called.returncode == 2
    assert called.stdout == ""
    assert called.stderr.startswith("noise_multiplier=-1.0, expected ")
    assert len(called.stderr.splitlines()) == 1


def test_ctrl_c_is_exit_code_130(shell, service):
    service.simulate.side_effect = KeyboardInterrupt
    code, _, err = shell("train", *SMALL)
    assert code == 130
    assert len(err.splitlines()) == 1
