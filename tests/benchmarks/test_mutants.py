"""Stored results of mutation testing: explanations refer to existing lines, and changed modules are reported."""

import warnings

from benchmarks import mutants

OUTCOME = {"date": "2026-01-02", "mutants": 9, "tested": 9, "killed": 8, "survivors": ['a = "x" → a = "ε"']}


def test_modules_and_their_tests_exist():
    named = [*mutants.MODULES, *(test for tests in mutants.MODULES.values() for test in tests)]
    assert [name for name in named if not (mutants.REPOSITORY / name).is_file()] == []


def test_each_explanation_refers_to_an_existing_line():
    assert mutants.gone(mutants.explained()) == []


def test_explanation_of_a_missing_line_is_reported(tmp_path):
    (tmp_path / "one.py").write_text("def f():\n    return (\n        1\n    )\n")
    entries = [("one.py", "return (\n1", "return (\n2"), ("one.py", "return 1", "return 2"), ("one.py", "turn (", "")]
    assert mutants.gone(entries, tmp_path) == ["one.py: return 1", "one.py: turn ("]


def test_keep_merges_new_and_stored_outcomes(tmp_path):
    file = tmp_path / "tested.toml"
    first, second, *others = mutants.MODULES
    digest = mutants._digest([mutants.REPOSITORY / first])
    mutants.keep({second: OUTCOME | {"digest": "old"}}, file)
    mutants.keep({first: OUTCOME | {"digest": digest, "survivors": []}}, file)
    assert mutants.kept(file)[second]["survivors"] == OUTCOME["survivors"]
    changed, *unknown = mutants.changed_since(file)
    assert all(part in changed for part in (f"{second}: ", "changed", "2026-01-02"))
    assert [line.partition(":")[0] for line in unknown] == others
    assert all("no outcome" in line for line in unknown)
    mutants.keep({first: OUTCOME | {"digest": digest, "tested": 3}}, file)
    assert mutants.kept(file)[first]["tested"] == 9, "an earlier outcome tested more of the same source"
    file.unlink()
    mutants.keep({first: OUTCOME | {"digest": digest, "tested": 3}}, file)
    assert mutants.changed_since(file)[0].startswith(f"{first}: 3 of 9 ")


def test_modules_changed_since_their_outcome_are_listed():
    """Warn only: a change need not wait for hours of mutation testing, but the modules without results are visible."""
    assert set(mutants.kept()) <= set(mutants.MODULES)
    for line in mutants.changed_since():
        warnings.warn(line, stacklevel=1)
