"""The lint finds banned phrases with their line numbers."""

from tests import banned_phrases


def test_phrases_have_line_numbers_and_may_span_lines():
    text = "# Nobody asks.\n# It was told\n# from chance, is told\n# again, as if it were a tenderfoot, mended.\n"
    assert list(banned_phrases.phrases(text)) == [
        (1, "Nobody"),
        (2, "told from"),
        (3, "is told"),
        (4, "mended"),
    ]


def test_longer_words_do_not_match():
    assert not list(banned_phrases.phrases("recommended amendments, as printed_pages, bandanew, the households"))


def test_read_returns_the_newest_changelog_section(tmp_path):
    path = tmp_path / "CHANGELOG.md"
    path.write_text("# Changelog\n\n## [2] - Unreleased\n\nnew\n\n## [1]\n\nold\n")
    assert "new" in banned_phrases.read(path)
    assert "old" not in banned_phrases.read(path)


def test_files_include_sources_and_documents():
    names = {path.relative_to(banned_phrases.ROOT).as_posix() for path in banned_phrases.files()}
    assert {"app.py", "README.md", "Makefile", "docs/security.md", "tests/conftest.py", ".ci/run"} <= names


def test_only_exempt_phrases_of_a_file_are_accepted():
    texts = {"a.py": "x\nNobody mends it", "b.py": "nobody"}
    lines = list(banned_phrases.problems(texts, {"a.py": {"nobody": "stored value"}}))
    assert [line.partition(" is ")[0] for line in lines] == ["a.py:2: 'mends'", "b.py:1: 'nobody'"]


def test_unused_exemptions_are_reported():
    exemptions = {"a.py": {"anew": "stored value", "mend": "stored value"}, "gone.py": {"anew": "stored value"}}
    lines = list(banned_phrases.problems({"a.py": "mend"}, exemptions))
    assert [line.partition(":")[0] for line in lines] == ["a.py", "gone.py"]
    assert "'anew'" in lines[0]
