"""Damaged and hostile corpus files and zips are read, or refused with one sentence."""

import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.corpus import brat, conll, rel
from engine.corpus.uploads import add_upload
from tests.engine.fuzz.mutation import answered, damaged, fuzzed, refused

COLUMNS = b"-DOCSTART- O\n\n" + b"Rosa B-PER\nlives O\nin O\nUlm S-LOC\n\n# id = 3\nEU NNP I-NP I-ORG\n\n" * 3
BIOES = b"Rosa\tB-PER\nLux\tE-PER\nlives\tO\n\nUlm\tS-LOC\n" * 6
PUBTATOR = b"Naloxone\tB-Chemical\nreverses\tO\nhigh\tB-Disease\nblood\tI-Disease\npressure\tI-Disease\n\n" * 6
REL = b"10030778|Rosa took aspirin and had a rash.|rash|31|35|aspirin|10|17\n" * 3
TEXT = b"Rosa took aspirin. She had a rash!\nThen she slept.\n"
MENTIONS = b"T1\tDrug 10 17\taspirin\nT2\tADR 29 33\trash\nT3\tADR 0 4;29 33\tRosa rash\nR1\tCauses Arg1:T1 Arg2:T2\n"


@fuzzed
@given(st.sampled_from([COLUMNS, BIOES, PUBTATOR]).flatmap(damaged))
def test_column_files_are_read_or_refused(data):
    answered(lambda: conll.read(data, "x.conll"))


@fuzzed
@given(damaged(REL))
def test_rel_files_are_read_or_refused(data):
    answered(lambda: rel.read({"DRUG-AE.rel": data}))


@fuzzed
@given(st.just(TEXT) | damaged(TEXT), damaged(MENTIONS))
def test_brat_files_are_read_or_refused(text, mentions):
    answered(lambda: brat.read({"a.txt": text, "a.ann": mentions}))


def zipped(files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data, compression)
    return buffer.getvalue()


FOLDER = {"x/train.conll": BIOES * 2, "x/test.conll": BIOES}
ZIPS = [
    zipped(FOLDER, compression)
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
] + [zipped({"ä.txt": TEXT * 5, "ä.ann": MENTIONS})]


@fuzzed
@given(data=st.sampled_from(ZIPS).flatmap(damaged))
def test_zip_uploads_are_read_or_refused(settings, data):
    answered(lambda: add_upload("some.zip", data, settings))


@fuzzed
@given(
    suffix=st.sampled_from([".zip", ".rel", ".conll"]),
    name=st.text(max_size=30),
    data=st.sampled_from([BIOES, REL, ZIPS[1]]),
)
@pytest.mark.repeats(area="processes")
def test_upload_names_stay_in_the_corpora_folder(settings, name, suffix, data):
    answered(lambda: add_upload(name + suffix, data, settings))
    assert all(path.is_relative_to(settings.home / "corpora") for path in Path(settings.home).rglob("*.conll"))


class TestRegressions:
    """Minimal inputs for bugs that fuzzing found."""

    def test_offsets_with_thousands_of_digits_are_refused(self):
        line = b"1|a rash|rash|" + b"9" * 5000 + b"|" + b"9" * 5000 + b"|a|1|2"
        refused(lambda: rel.read({"DRUG-AE.rel": line}), "expected offsets that differ by its length")

    @pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
    def test_a_corrupt_compressed_file_is_refused(self, settings, compression):
        data = bytearray(zipped({"train.conll": BIOES}, compression))
        at = data.index(b"train.conll") + len(b"train.conll") + 8
        data[at : at + 20] = b"\xff" * 20
        refused(lambda: add_upload("x.zip", bytes(data), settings), "not a readable zip file")

    def test_a_file_name_with_invalid_utf_8_is_refused(self, settings):
        data = zipped({"ä.conll": BIOES}).replace("ä".encode(), b"\xff\xff")
        refused(lambda: add_upload("x.zip", data, settings), "not a readable zip file")

    def test_many_mentions_in_a_long_text_are_fast(self):
        text = b"word " * 20_000
        mentions = b"".join(b"T%d\tDrug %d %d\tword\n" % (n, 5 * n, 5 * n + 4) for n in range(2_000))
        answered(lambda: brat.read({"a.txt": text, "a.ann": mentions}))

    def test_many_mentions_of_one_letter_are_fast(self):
        sentence = b"a " * 20_000
        lines = b"".join(b"1|%s|a|%d|%d|a|%d|%d\n" % (sentence, n, n + 1, n, n + 1) for n in range(0, 40, 2))
        answered(lambda: rel.read({"DRUG-AE.rel": lines}))

    def test_null_bytes_and_surrogates_in_upload_names(self, settings):
        assert add_upload("a\0b\ud800.conll", 2 * BIOES, settings) == "my-a-b"
        refused(lambda: add_upload("a\0-b.rel", REL, settings), "is not named after two entity types")
