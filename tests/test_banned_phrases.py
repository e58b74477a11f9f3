"""The lint of banned phrases finds them where they are."""

from tests import banned_phrases


def test_phrases_are_found_with_their_lines_also_across_lines():
    text = "# Nobody asks.\n# It was told\n# from chance, is told\n# again, as if it were a tenderfoot, mended.\n"
    assert list(banned_phrases.phrases(text)) == [
        (1, "Nobody"),
        (2, "told from"),
        (3, "is told"),
        (4, "mended"),
    ]


def test_words_that_contain_a_phrase_are_no_phrase():
    assert not list(banned_phrases.phrases("recommended amendments, as printed_pages, bandanew, the households"))


def test_only_the_newest_section_of_the_change_log_counts(tmp_path):
    path = tmp_path / "CHANGELOG.md"
    path.write_text("# Changelog\n\n## [2] - Unreleased\n\nnew\n\n## [1]\n\nold\n")
    assert "new" in banned_phrases.read(path)
    assert "old" not in banned_phrases.read(path)


def test_tracked_sources_and_documents_are_read():
    names = {path.relative_to(banned_phrases.ROOT).as_posix() for path in banned_phrases.files()}
    assert {"app.py", "README.md", "Makefile", "docs/security.md", "tests/conftest.py", ".ci/run"} <= names
