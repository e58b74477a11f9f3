"""Damaged stored files and links: published runs, audits, studies, sweeps, taggers, checkpoints."""

import dataclasses
import io
import json
import zipfile
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.config import SimulationConfig, run_id
from engine.errors import StoreError
from engine.experiments import sweeps
from engine.records import Run, RunState, RunStatus, Study, Trial
from engine.seeds import Secrets
from engine.store import audits, published, tuning_studies
from engine.store.published_index import File
from engine.training.checkpoint import Checkpoint, TrainingProgress
from engine.training.model import Model
from pages.shared import address
from tests.engine.factories import SMALL, provenance, record
from tests.engine.fuzz.mutation import ODD_TEXTS, ODD_VALUES, altered, answered, as_json, damaged, fuzzed
from tests.engine.store.test_audits import AUDIT
from tests.engine.training.test_checkpoint import unsealed
from tests.engine.training.test_model import model

CONFIG = json.loads(SMALL.canonical_json())
IDENTITY = run_id(SMALL, provenance().corpus_checksum, provenance().engine_version)
FINISHED = Run(
    run_id=IDENTITY,
    config=SMALL,
    status=RunStatus(run_id=IDENTITY, state=RunState.DONE),
    records=tuple(record(number) for number in range(3)),
    provenance=provenance(),
)
PUBLISHED = json.loads(published.to_text(FINISHED))
AUDITED = audits._without_infinities(dataclasses.asdict(AUDIT) | {"config": AUDIT.config.to_dict()})
STUDY = dataclasses.asdict(
    Study(
        name="x",
        corpus="synthetic",
        development="synthetic",
        epsilon=1.0,
        delta=1e-5,
        trials=(Trial(number=0, chosen={"epochs": 1.0}, noise_multiplier=1.0, f1=0.5, seconds=1.0, seed=0),),
        best=None,
        booked_basic=1.0,
        booked_composed=1.0,
        command="tune",
        released={0: 1},
    )
) | {"best": SMALL.to_dict()}


@fuzzed
@given(value=altered(SMALL.to_dict()))
def test_configurations_are_read_or_refused(value):
    answered(lambda: SimulationConfig.from_dict(value))


@pytest.mark.parametrize("value", ODD_VALUES, ids=lambda value: repr(value)[:20])
def test_odd_values_of_each_field_are_read_or_refused(value):
    for name in SMALL.flat():
        answered(partial(SimulationConfig.from_flat, SMALL.flat() | {name: value}))


@fuzzed
@given(data=altered(PUBLISHED).map(as_json) | damaged(as_json(PUBLISHED)))
def test_published_runs_are_read_or_skipped(tmp_path, data):
    (tmp_path / "a.json").write_bytes(data)
    published._read.cache_clear()
    result = answered(lambda: published._read(File(str(tmp_path / "a.json"), len(data), 0, 0)))
    assert isinstance(result, Run) or all(part in result for part in ("a.json", "skipped"))


@fuzzed
@given(data=altered(AUDITED).map(as_json) | damaged(as_json(AUDITED)))
def test_audits_are_read_or_skipped(tmp_path, data):
    (tmp_path / audits.FOLDER).mkdir(exist_ok=True)
    (tmp_path / audits.FOLDER / "a.json").write_bytes(data)
    answered(lambda: audits.read_all(tmp_path))


@fuzzed
@given(data=altered(STUDY).map(as_json) | damaged(as_json(STUDY)))
@example(data=as_json(STUDY).replace(b'"number": 0', b'"number": Infinity'))
@example(data=as_json(STUDY).replace(b'"f1": 0.5', b'"f1": 1' + b"0" * 400))
def test_studies_are_read_or_skipped(tmp_path, data):
    (tmp_path / tuning_studies.FOLDER).mkdir(exist_ok=True)
    (tmp_path / tuning_studies.FOLDER / "a.json").write_bytes(data)
    answered(lambda: tuning_studies.read_all(tmp_path))


SWEEP = b'seeds = [0, 7]\n[base]\ncorpus = "conll2003"\nepochs = 1.5\n[grid]\nnoise_multiplier = [0, 1]\n'
TABLES = {"seeds": [0, 7], "base": {"corpus": "conll2003", "epochs": 1.5}, "grid": {"noise_multiplier": [0, 1]}}


@fuzzed
@given(data=damaged(SWEEP))
@example(data=b"a = " + b"[" * 100_000)
@example(data=b"seeds = " + b"9" * 5000)
@example(data=b"seeds = 1979-13-27")
@example(data=b"[base]\ncorpus = [[]]\n")
def test_sweep_files_are_read_or_refused(tmp_path, data):
    (tmp_path / "a.toml").write_bytes(data)
    answered(lambda: sweeps.read(tmp_path / "a.toml"))


@fuzzed
@given(value=altered(TABLES))
def test_sweep_tables_are_read_or_refused(value):
    answered(lambda: sweeps.configurations(value))


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def stored(save) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


TAGGER = stored(model().save)
RUN, SECRETS = "0" * 16, Secrets(bytes(range(32)))
KEPT = Checkpoint(round=2, seconds=1.5, tally=TrainingProgress(step=3), arrays={"weights": np.ones(20, np.float32)})
CHECKPOINT = unsealed(KEPT)
PACKED = npz(**{"round": np.array(2), "seconds": np.array(1.5), "step": np.array(3), "array:weights": np.ones(2000)})


def with_header(header: bytes) -> bytes:
    """Return a checkpoint with an array that has this header."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("round.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    return buffer.getvalue()


@fuzzed
@given(data=st.sampled_from([CHECKPOINT, PACKED]).flatmap(damaged))
@example(data=b"")
@example(data=with_header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }\n"))
@example(data=with_header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n"))
@example(data=with_header(b"{" * 3000))
@example(data=CHECKPOINT.replace(b"<i8", b"|O "))
def test_checkpoints_are_read_or_refused(tmp_path, data):
    (tmp_path / "a.npz").write_bytes(data)
    answered(lambda: Checkpoint.load(tmp_path / "a.npz", RUN, SECRETS))


@fuzzed
@given(data=st.data())
def test_sealed_checkpoints_are_refused_unless_whole(tmp_path, data):
    path = tmp_path / "a.npz"
    KEPT.save(path, RUN, SECRETS)
    whole = path.read_bytes()
    path.write_bytes(data.draw(damaged(whole)))
    if path.read_bytes() != whole:
        with pytest.raises(StoreError, match="cannot be read"):
            Checkpoint.load(path, RUN, SECRETS)


@fuzzed
@given(data=damaged(TAGGER))
def test_model_files_are_read_or_refused(tmp_path, data):
    (tmp_path / "a.npz").write_bytes(data)
    answered(lambda: Model.load(tmp_path / "a.npz"))


with np.load(io.BytesIO(TAGGER)) as _file:
    HEAD, WEIGHTS = json.loads(str(_file["head"])), _file["weights"]


@fuzzed
@given(head=altered(HEAD))
@example(head=HEAD | {"dimensions": float("inf")})
@example(head=HEAD | {"dimensions": 10**400})
@example(head=HEAD | {"dimensions": -1})
@example(head=HEAD | {"delta": 10**400})
def test_model_headers_are_read_or_refused(tmp_path, head):
    with (tmp_path / "a.npz").open("wb") as file:
        np.savez(file, head=np.array(json.dumps(head)), weights=WEIGHTS)
    answered(lambda: Model.load(tmp_path / "a.npz"))


LINK = address.write(SMALL)


@fuzzed
@given(
    fields=st.dictionaries(
        st.sampled_from(address.FIELDS) | st.text(max_size=8),
        st.sampled_from((*ODD_TEXTS, *LINK.values(), "-1", "0", "1e-320", "none", "yes", "9" * 400))
        | st.text(max_size=9),
        max_size=6,
    )
)
@example(fields={"data_fraction": "1e400"})
@example(fields={"clients": "9" * 4000})
@example(fields={"epochs": "9" * 400})
def test_links_give_a_configuration_and_problems(fields):
    config, problems = answered(lambda: address.read(LINK | fields, ["synthetic", "conll2003"]))
    assert all(problem.endswith("this field was ignored.") for problem in problems)
    assert address.read(address.write(config), ["synthetic", "conll2003"]) == (config, [])
    assert len(problems) <= len(fields) + len(LINK)
