"""The digest of ``tests.repeated`` changes with code, not with comments or docstrings."""

from types import SimpleNamespace

import pytest

from tests import repeated
from tests.conftest import marked

SOURCE = '''"""Module."""
LIMIT = 3  # why
"""Unit and reason."""


def twice(x):
    """Return twice x."""
    return f"# {x + x}"
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Module.", "Another\nsentence.", True),
        ("  # why", "  # because", True),
        ("Unit and", "The unit and the", True),
        ("\n\n\n", "\n", True),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("x + x", "x * x", False),
        ("# {x", "#{x", False),
        ('    """Return twice x."""\n', "", True),
    ],
)
def test_code_drops_only_comments_docstrings_and_blank_lines(old, new, same):
    assert old in SOURCE
    assert (repeated.code(SOURCE.replace(old, new)) == repeated.code(SOURCE)) is same


def test_digest_depends_on_names_and_contents(tmp_path, monkeypatch):
    monkeypatch.setattr(repeated, "AREAS", {"one": ("folder", "list.txt")})
    (tmp_path / "folder").mkdir()
    module, picture, listed = tmp_path / "folder" / "one.py", tmp_path / "folder" / "mark.svg", tmp_path / "list.txt"
    module.write_text(SOURCE)
    picture.write_bytes(b"\xff")
    listed.write_text("package==1\n")
    before = repeated.digest("one", tmp_path)
    module.write_text(SOURCE.replace("Module", "The module"))
    assert repeated.digest("one", tmp_path) == before
    for change in (
        lambda: module.rename(module.with_name("two.py")),
        lambda: picture.write_bytes(b"\xfe"),
        lambda: listed.write_text("package==2\n"),
    ):
        change()
        assert repeated.digest("one", tmp_path) != before
        before = repeated.digest("one", tmp_path)


def test_sources_exist():
    assert [
        source for sources in repeated.AREAS.values() for source in sources if not (repeated.ROOT / source).exists()
    ] == []


def test_only_areas_with_a_changed_source_are_due(tmp_path, monkeypatch):
    monkeypatch.setattr(repeated, "RECORDED", tmp_path / "repeated.txt")
    monkeypatch.setattr(repeated, "AREAS", {"one": ("pyproject.toml",), "two": ("Makefile",)})
    due = repeated.due.__wrapped__
    assert due() == ["one", "two"]
    repeated.RECORDED.write_text(f"one {repeated.digest('one')}\nolder line\ntwo {64 * '0'}\n")
    assert due() == ["two"]


def test_an_area_that_is_unknown_or_does_not_have_the_test_is_refused():
    def area(path, **options):
        return repeated.area(SimpleNamespace(path=repeated.ROOT / path), pytest.mark.repeats(**options).mark)

    assert area("tests/engine/training/test_dpsgd.py") == "computations"
    assert area("tests/engine/test_file_access.py", area="processes") == "processes"
    with pytest.raises(pytest.UsageError, match="area='page'"):
        area("tests/pages/test_runs.py", area="page")
    with pytest.raises(pytest.UsageError, match=r"tests/pages/test_runs\.py is not in .* 'computations'"):
        area("tests/pages/test_runs.py")


def test_marked_leaves_the_first_cases_of_each_test():
    """Check markers with and without ``after``, for two tests whose cases alternate."""
    marks = {"a": pytest.mark.repeats(after=2).mark, "b": pytest.mark.repeats.mark, "c": None}
    names = [f"{test}[{case}]" for case in range(3) for test in "abc"]
    items = [SimpleNamespace(nodeid=name, get_closest_marker=lambda _, mark=marks[name[0]]: mark) for name in names]
    assert [item.nodeid for item, _ in marked(items, "repeats")] == ["b[0]", "b[1]", "a[2]", "b[2]"]
