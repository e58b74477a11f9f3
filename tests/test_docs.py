"""Documentation checks: links resolve, commands exist, and the README is short."""

import importlib.util
import re

import pytest

from engine import PLAIN_VERSION, PRIVATE_VERSION, VERSION
from engine.config.encoder_registry import MPNET, size_of
from engine.config.feature_registry import ALL_PARTS
from engine.settings import REPOSITORY
from tests.engine.test_imports import RANK

TEXTS = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]
NAMES = [text.relative_to(REPOSITORY).as_posix() for text in TEXTS]


def anchors(text):
    """Return the anchor that GitHub gives each heading."""
    return {re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in headings(text)}


def headings(text):
    return re.findall(r"(?m)^#+ .*$", re.sub(r"(?ms)^```.*?^```", "", text))


@pytest.mark.parametrize("name", NAMES)
def test_links_resolve(name):
    file = REPOSITORY / name
    for target in re.findall(r"\]\(([^)\s]+)\)", file.read_text()):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            aim = file.parent / path if path else file
            assert aim.exists(), f"{target} in {name}"
            assert not anchor or anchor in anchors(aim.read_text()), f"{target} in {name}"


@pytest.mark.parametrize("name", NAMES)
def test_commands_exist(name):
    text = (REPOSITORY / name).read_text()
    for module in set(re.findall(r"python -m\s+((?:engine|benchmarks|tests)[\w.]*\w)", text)):
        assert importlib.util.find_spec(module), f"python -m {module} in {name}"
    targets = re.findall(r"(?m)^([a-z-]+):", (REPOSITORY / "Makefile").read_text())
    for target in set(re.findall(r"(?:`|^|\n)make ([a-z-]+)", text)):
        assert target in targets, f"make {target} in {name}"


def test_readme_has_at_most_120_lines():
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 120


def test_changelog_starts_with_the_version():
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    first = re.search(r"(?m)^## \[([\d.]+)\] - .*\n\n(.*)$", text)
    assert first
    assert first[1] == VERSION
    assert first[2].startswith(f"Engine {PRIVATE_VERSION} with noise, {PLAIN_VERSION} without")


def test_architecture_diagram_has_the_import_layers():
    """Each part is in one layer, and upper layers import from lower ones."""
    diagram = (REPOSITORY / "docs/architecture.md").read_text().split("```")[1]
    lines = [re.findall(r"(?:engine|pages)/[a-z_]+(?:/[a-z_]+)?|app(?=\.py)", line) for line in diagram.splitlines()]
    layers = [[part.replace("/", ".") for part in line] for line in lines if line]
    ranks = [{RANK[part] for part in layer} for layer in layers]
    assert all(len(rank) == 1 or "app" in layer for rank, layer in zip(ranks, layers, strict=True))
    lowest = [min(rank) for rank in ranks]
    assert lowest == sorted(lowest, reverse=True)
    drawn = {part for layer in layers for part in layer}
    assert {part for part in RANK if part.startswith("engine.")} - {"engine.__main__"} <= drawn


@pytest.mark.parametrize("name", NAMES)
def test_each_timing_names_its_processor(name):
    """Check ms, µs and GFLOP/s: the processor is in the paragraph, or for a table also in the paragraph after it."""
    parts = re.split(r"\n\s*\n", (REPOSITORY / name).read_text())
    for part, after in zip(parts, [*parts[1:], ""], strict=True):
        if name != "CHANGELOG.md" and re.search(r"\d (ms|µs|GFLOP/s)\b|\| ms \|", part):
            beside = part + after if part.lstrip().startswith(("|", "<!--")) else part
            assert re.search(r"EPYC|Xeon", beside), part


def test_metrics_md_lists_each_page():
    """Find each page by its title in the navigation, where *Account* has the name of its user."""
    titles = re.findall(r'_page\(\s*"\w+", "([^"]+)"', (REPOSITORY / "app.py").read_text())
    table = (REPOSITORY / "docs" / "metrics.md").read_text().split("## Figures by page")[1].split("\n## ")[0]
    assert len(titles) >= 18
    assert [title for title in [*titles, "Account"] if f"\n| *{title}*" not in table] == []


def test_metrics_md_lists_each_lesson():
    table = (REPOSITORY / "docs" / "metrics.md").read_text()
    lessons = list((REPOSITORY / "pages" / "learn").glob("lesson_?_*.py"))
    numbers = {found[1] for lesson in lessons if (found := re.match(r"lesson_(\d)_", lesson.name))}
    assert set(re.findall(r"\| \*Lessons\*, lesson (\d),", table)) == numbers


def test_metrics_md_has_the_declared_widths_of_features():
    section = (REPOSITORY / "docs" / "metrics.md").read_text().split("\n## Features\n")[1].split("\n#")[0]
    widths = [int(width) for width in re.findall(r"\| (\d+) \|\n", section)]
    assert widths == [part.width or size_of(MPNET) for part in ALL_PARTS]


def test_each_claimed_defence_has_its_test():
    text = (REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(?:\w+::)?(\w+)`", text)
    assert len(named) > 30
    for file, test in named:
        assert re.search(rf"def {test}\(", (REPOSITORY / file).read_text(encoding="utf-8")), f"{file}::{test}"
