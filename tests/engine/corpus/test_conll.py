"""Column files: supported schemes and layouts, and refused files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.corpus import conll, text_decoding
from engine.errors import CorpusError

IOB1 = ["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-ORG"]
BIO2 = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "B-ORG"]
BIOES = ["B-PER", "E-PER", "O", "S-LOC", "S-LOC", "S-ORG"]
BILOU = ["B-PER", "L-PER", "O", "U-LOC", "U-LOC", "U-ORG"]


def column_file(tags: list[str], separator: str = " ", copies: int = 1) -> bytes:
    rows = "".join(f"w{i}{separator}{tag}\n" for i, tag in enumerate(tags))
    return "\n".join([rows] * copies).encode()


@pytest.mark.parametrize("tags", [IOB1, BIO2, BIOES, BILOU])
def test_all_schemes_are_read_as_bio2(tags):
    (sentence,) = conll.read(column_file(tags), "file")
    assert list(sentence.tags) == BIO2
    assert sentence.tokens == ("w0", "w1", "w2", "w3", "w4", "w5")


@pytest.mark.parametrize("heading", ["token ner_tag", "Word\tLabel", "\n\nword NER"])
def test_a_header_line_is_skipped(heading):
    separator = "\t" if "\t" in heading else " "
    (sentence,) = conll.read(heading.encode() + b"\n" + column_file(BIO2, separator), "file")
    assert list(sentence.tags) == BIO2
    with pytest.raises(CorpusError, match=r"'ner_tag'.* line 8\b"):
        conll.read(column_file(BIO2) + b"\ntoken ner_tag\n", "file")


@pytest.mark.parametrize(
    ("tags", "expected"), [(IOB1, "IOB1"), (BIO2, "BIO2"), (BIOES, "BIOES"), (BILOU, "BIOES"), (["O", "O"], None)]
)
def test_scheme_is_detected_from_the_tags(tags, expected):
    assert conll.scheme(conll.parse(column_file(tags), "file"), "file") == expected


@pytest.mark.parametrize(
    "data",
    [
        b"a B-X\nb O\n\nc B-X",
        b"a\tNN\tB-X\nb\tNN\tO\n \t \nc\tNN\tB-X\n",
        b"\xef\xbb\xbfa B-X\r\nb O\r\n\r\nc B-X\r\n",
        b"-DOCSTART- -X- O\n\na NN B-X\nb NN O\n\n\n\n-DOCSTART- -X- O\n\nc NN B-X\n",
        b"# id = 3\na x y z B-X\nb x y z O\n\n# a comment\n\nc x y z B-X\n",
    ],
    ids=["plain", "tabs, blank separator", "BOM and CRLF", "DOCSTART", "comments"],
)
def test_layouts_are_equivalent(data):
    first, second = conll.read(data, "file")
    assert (first.tokens, second.tokens) == (("a", "b"), ("c",))
    assert (first.tags, second.tags) == (("B-X", "O"), ("B-X",))


def test_a_hash_may_be_a_token():
    (sentence,) = conll.read(b"# O\n#tag B-X\n", "file")
    assert sentence.tokens == ("#", "#tag")


def test_latin_1_is_read_if_utf_8_fails():
    (sentence,) = conll.read("Jos\xe9 B-PER\nlacht O\n".encode("latin-1"), "file")
    assert sentence.tokens == ("José", "lacht")


def test_a_no_break_space_belongs_to_its_token():
    (sentence,) = conll.read("10\u00a0km O\nBonn B-LOC\n".encode(), "file")
    assert sentence.tokens[0] == "10\u00a0km"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b" \n\t\n\r\n", "empty"),
        (b"-DOCSTART- -X- O\n\n", "no sentences"),
        (b"one\ntwo\n\nthree\n", "one column in line 1"),
        (b"a NN\nb VB\n", "'NN' in the last column of line 1"),
        (b"a B-X\nb\n", "1 columns in line 2, expected 2 as in line 1"),
        (b"a O\nb O\n", "only the tag O"),
        (b"x" * 10_000_000 + b" O\n", "10,000,002 bytes in line 1"),
        (b"a B-X\n\x00\x01 O\n", "binary byte 0x00 in line 2"),
        (column_file(IOB1, copies=60) + b"\n" + column_file(BIOES, copies=60), "mixes two tag schemes"),
        (column_file(["I-X", "O", "I-X", "O"], copies=9) + b"\n" + column_file(["B-X", "O"] * 2, copies=9), "mixes"),
        (b"a B-\n", "expected a tag"),
        ("".join(f"w B-T{i}\n" for i in range(300)).encode(), "300 entity types"),
    ],
)
def test_malformed_file_raises_corpus_error(data, words):
    with pytest.raises(CorpusError, match=r"notes\.txt") as refusal:
        conll.read(data, "notes.txt")
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


def test_file_above_size_limit_is_refused(monkeypatch):
    monkeypatch.setattr(text_decoding, "LARGEST_FILE", 1_000)
    with pytest.raises(CorpusError, match=r"1,001 bytes.*at most 1,000\b"):
        conll.read(b"a" * 1_001, "file")


def test_decode_lines_is_independent_of_chunk_size(monkeypatch):
    data = b"a\n\nlonger than a few characters\r\nb\rc\n\n"
    expected = ["a", "", "longer than a few characters", "b", "c", "", ""]
    for number in (1, 2, 7, 1_000):
        monkeypatch.setattr(text_decoding, "_CHUNK_SIZE", number)
        assert list(text_decoding.decode_lines(data, "file")) == expected


def test_long_line_is_refused_at_any_position(monkeypatch):
    monkeypatch.setattr(text_decoding, "MAX_LINE", 10)
    for lines in (["x" * 10] * 5, ["a", "x" * 9, "", "x" * 10, "b"]):
        assert text_decoding.decode_text("\n".join(lines).encode(), "file") == "\n".join(lines)
    for position in range(6):
        lines = ["x" * 7] * 6
        lines[position] = "x" * 11
        with pytest.raises(CorpusError, match=rf"11 bytes.* line {position + 1}\b.*at most 10\b"):
            text_decoding.decode_text("\n".join(lines).encode(), "file")


def test_tokens_and_tags_are_interned():
    sentences = conll.read(column_file(["B-X", "I-X", "O"], copies=3), "file")
    for rows in ([sentence.tokens for sentence in sentences], [sentence.tags for sentence in sentences]):
        values = [value for row in rows for value in row]
        assert len({id(value) for value in values}) == len(set(values))


def test_a_docstart_line_within_a_sentence_does_not_end_it():
    """Kept from earlier versions: a blank line separates two sentences."""
    (sentence,) = conll.read(b"-DOCSTART- O\n\na B-X\n-DOCSTART- O\nb O\n", "file")
    assert (sentence.tokens, sentence.document) == (("a", "b"), 0)


def test_a_few_stray_prefixes_do_not_make_a_second_scheme():
    """In CoNLL-2003, 2 of 23,499 entities begin with a B- that IOB1 does not need."""
    data = column_file(["I-X", "O"] * 200 + ["B-X"])
    assert conll.scheme(conll.parse(data, "file"), "file") == "IOB1"


entities = st.lists(st.tuples(st.sampled_from(["", "PER", "LOC"]), st.integers(1, 3)), min_size=1, max_size=12)


def tags_in_scheme(blocks: list[tuple[str, int]], scheme: str) -> list[str]:
    """Return the tags of consecutive entities in a scheme. The type "" stands for tokens outside."""
    tags: list[str] = []
    before = ""
    for kind, length in blocks:
        if not kind:
            tags += ["O"] * length
        elif scheme == "BIOES":
            tags += [f"S-{kind}"] if length == 1 else [f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"E-{kind}"]
        else:
            begin = "B" if scheme == "BIO2" or before == kind else "I"
            tags += [f"{begin}-{kind}", *[f"I-{kind}"] * (length - 1)]
        before = kind
    return tags


@given(entities)
def test_all_schemes_convert_to_equal_bio2(blocks):
    expected = tags_in_scheme(blocks, "BIO2")
    for scheme in ("IOB1", "BIO2", "BIOES"):
        assert conll.to_bio2(tags_in_scheme(blocks, scheme)) == expected


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data):
    try:
        sentences = conll.read(data, "file")
    except CorpusError:
        return
    assert all(len(sentence.tokens) == len(sentence.tags) > 0 for sentence in sentences)
