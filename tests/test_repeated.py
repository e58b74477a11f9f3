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


def test_digest_depends_on_names_and_code(tmp_path, monkeypatch):
    monkeypatch.setattr(repeated, "SOURCES", ("folder",))
    (tmp_path / "folder").mkdir()
    module = tmp_path / "folder" / "one.py"
    module.write_text(SOURCE)
    before = repeated.digest(tmp_path)
    module.write_text(SOURCE.replace("Module", "The module"))
    assert repeated.digest(tmp_path) == before
    module.rename(module.with_name("two.py"))
    assert repeated.digest(tmp_path) != before


def test_marked_leaves_the_first_cases_of_each_test():
    """Check markers with and without ``after``, for two tests whose cases alternate."""
    marks = {"a": pytest.mark.repeats(after=2).mark, "b": pytest.mark.repeats.mark, "c": None}
    names = [f"{test}[{case}]" for case in range(3) for test in "abc"]
    items = [SimpleNamespace(nodeid=name, get_closest_marker=lambda _, mark=marks[name[0]]: mark) for name in names]
    assert [item.nodeid for item in marked(items, "repeats")] == ["b[0]", "b[1]", "a[2]", "b[2]"]
