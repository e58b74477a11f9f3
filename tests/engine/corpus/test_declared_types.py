"""Entity types that a corpus declares: in its files, or with an upload."""

import hashlib
from dataclasses import replace

import pytest

from engine import corpus
from engine.corpus import files
from engine.corpus.declared_types import FILE, LEFT_OUT, OUTSIDE, DeclaredTypes, from_lines
from engine.errors import CorpusError, InvalidConfig
from tests.engine.corpus.test_offsets import archive

SENTENCES = "".join(f"{name} B-PER\nlives O\nin O\nUlm B-LOC\n\n" for name in ("Rosa", "Ada", "Max", "Ida") * 5)
RARE = "Zoe O\nhas O\nlupus B-RARE\n\n"


def checksum_of_version_0_6(path) -> str:
    """Return the checksum of one column file as earlier versions computed it."""
    content = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashlib.sha256(f"reading 1\nwhole - {content}\n".encode()).hexdigest()


@pytest.fixture
def load(tmp_path, settings):
    """Return a function that writes one column file and reads it as a corpus."""

    def load(text: str | bytes):
        path = tmp_path / "notes.conll"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return corpus.resolve(str(path), settings).load()

    return load


def test_header_lines_declare_types_which_need_not_occur(load):
    loaded = load("# entity types: PER LOC, MISC\n" + SENTENCES)
    assert (loaded.entity_types, loaded.declared) == (("LOC", "MISC", "PER"), True)
    assert loaded.tags == ("O", "B-LOC", "I-LOC", "B-MISC", "I-MISC", "B-PER", "I-PER")
    assert sum(map(len, (loaded.train, loaded.validation, loaded.test))) == 20


@pytest.mark.parametrize("first", ["# source: a clinic\n", "\n", "-DOCSTART- O\n\n", "token tag\n"])
def test_declaration_may_follow_comments_but_not_tokens(load, first):
    declared = load(f"{first}# entity types: LOC PER\n{SENTENCES}").declared
    assert declared == (first != "token tag\n")
    assert load(f"# entity types: LOC PER\n{first}{SENTENCES}").entity_types == ("LOC", "PER")


def test_undeclared_types_are_refused_with_their_names(load):
    with pytest.raises(CorpusError, match=r"RARE \(1\).*does not declare"):
        load("# entity types: LOC PER\n" + SENTENCES + RARE)


def test_undeclared_types_become_o_and_are_counted(load):
    head = f"# entity types: LOC PER\n# undeclared types: {OUTSIDE}\n"
    loaded = load(head + SENTENCES + RARE)
    assert loaded.entity_types == ("LOC", "PER")
    assert loaded.left_out == {LEFT_OUT: 1}
    every = [sentence for part in (loaded.train, loaded.validation, loaded.test) for sentence in part]
    (rare,) = (sentence for sentence in every if "lupus" in sentence.tokens)
    assert rare.tags == ("O", "O", "O")
    assert sum(tag == "B-PER" for sentence in every for tag in sentence.tags) == 20


def test_old_corpora_keep_their_checksum_and_are_not_declared(load, tmp_path, settings):
    loaded = load(SENTENCES + RARE)
    assert (loaded.entity_types, loaded.declared) == (("LOC", "PER", "RARE"), False)
    path = tmp_path / "notes.conll"
    assert loaded.checksum == checksum_of_version_0_6(path)
    assert not corpus.resolve(f"synthetic + {path}", settings).declared
    assert corpus.resolve("synthetic", settings).declared
    assert corpus.resolve("conll2003", settings).declared, "by the catalogue, also where it is not installed"


def test_declaration_is_part_of_the_checksum(tmp_path, settings):
    (tmp_path / files.WHOLE).write_text(SENTENCES)
    checksums = {corpus.resolve(str(tmp_path), settings).checksum}
    for types in ("LOC PER", "LOC MISC PER"):
        (tmp_path / FILE).write_text(f"# entity types: {types}\n")
        checksums.add(corpus.resolve(str(tmp_path), settings).checksum)
    assert len(checksums) == 3


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["# entity types: PER", "# entity types: LOC"], "twice"),
        (["# entity types:"], "0 entity types"),
        (["# undeclared types: O"], "0 entity types"),
        (["# entity types: PER", "# undeclared types: drop"], "expected refuse or O"),
        (["# entity types: " + "x" * 61], "more than 60 characters"),
        (["# entity types: " + " ".join(f"T{n}" for n in range(201))], "201 entity types"),
    ],
)
def test_invalid_declaration_is_refused(lines, message):
    with pytest.raises(CorpusError, match=message):
        from_lines(lines, "notes.conll")


def test_two_column_files_must_declare_the_same(tmp_path, settings):
    for part, types in (("train", "LOC PER"), ("test", "PER")):
        (tmp_path / f"{part}.txt").write_text(f"# entity types: {types}\n" + SENTENCES)
    with pytest.raises(CorpusError, match=r"declare different entity types"):
        corpus.resolve(str(tmp_path), settings).load()
    (tmp_path / "test.txt").write_text(SENTENCES)
    assert corpus.resolve(str(tmp_path), settings).load().entity_types == ("LOC", "PER")
    (tmp_path / FILE).write_text("# entity types: LOC MISC PER\n")
    assert corpus.resolve(str(tmp_path), settings).load().entity_types == ("LOC", "MISC", "PER")


@pytest.mark.parametrize("form", ["conll", "zip", "rel"])
def test_upload_keeps_its_declaration(form, settings):
    files_by_name = {"train.txt": SENTENCES, "test.txt": SENTENCES}
    relation = "".join(f"{n}|He took ibuprofen and had a rash.|a rash|27|33|ibuprofen|8|17\n" for n in range(20))
    data = {"conll": SENTENCES.encode(), "zip": archive(files_by_name), "rel": relation.encode()}[form]
    title = "DRUG-AE.rel" if form == "rel" else f"notes.{form}"
    types = ("ADE", "Drug", "Extra") if form == "rel" else ("Extra", "LOC", "PER")
    name = corpus.add_upload(title, data, settings, declared=DeclaredTypes(types))
    assert corpus.resolve(name, settings).load().entity_types == types
    assert next(info for info in corpus.catalogue(settings) if info.name == name).entity_types == types
    assert corpus.add_upload(title, data, settings, declared=DeclaredTypes(types)) == name
    assert corpus.add_upload(title, data, settings) != name, "other declarations are other corpora"
    remote = replace(settings, shared="memory://declared")
    handle = corpus.resolve(name, remote)
    handle.share()
    elsewhere = replace(remote, home=settings.home.with_name("elsewhere"))
    assert corpus.resolve(name, elsewhere, handle.checksum).load().entity_types == types


def test_upload_declaration_replaces_that_of_its_file(settings):
    data = ("# entity types: PER\n" + SENTENCES).encode()
    with pytest.raises(CorpusError, match=r"^notes.conll has the entity types LOC \(20\)"):
        corpus.add_upload("notes.conll", data, settings)
    name = corpus.add_upload("notes.conll", data, settings, declared=DeclaredTypes(("PER",), OUTSIDE))
    assert corpus.resolve(name, settings).load().left_out == {LEFT_OUT: 20}
    with pytest.raises(InvalidConfig, match="undeclared='drop'"):
        DeclaredTypes(("PER",), "drop")


def test_no_sentence_changes_how_others_are_decoded(load):
    """Latin-1 is recognised by bytes that UTF-8 does not have; one such byte must not reach the other sentences."""
    head, accent = b"# entity types: LOC PER\n", SENTENCES.replace("Rosa", "Zoë").encode()
    before = load(head + accent)
    after = load(head + accent + "Renée B-PER\n\n".encode("latin-1"))
    words = [
        {word for part in (c.train, c.validation, c.test) for s in part for word in s.tokens} for c in (before, after)
    ]
    assert words[1] - words[0] == {"Renée"}
    assert "Zoë" in words[0] & words[1]


def test_declaration_is_searched_in_the_first_lines_only(tmp_path):
    """The server itself searches it: 49 MB of empty lines took 40 s of its processor time."""
    path, line = tmp_path / "notes.conll", "# entity types: PER LOC\n"
    for before, found in ((9_000, DeclaredTypes(("LOC", "PER"))), (11_000, None)):
        path.write_text("\n" * before + line + SENTENCES)
        assert files.declaration(path) == found
