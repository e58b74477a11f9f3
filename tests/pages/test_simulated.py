"""Pages that show the ε of runs say that a seeded run is a simulation and that its very tagger is not protected."""

from dataclasses import replace

import pytest

from engine.runs import Answer, Runs
from engine.settings import REPOSITORY
from engine.store import audits, studies
from pages.shared.simulated import SEEDED
from tests.engine.store.test_audits import AUDIT
from tests.pages.test_tuning import STUDY

PAGES = (
    *("audit", "compare", "diagnose", "frontier", "medical", "paper", "planner", "practice", "runs", "try_it"),
    "tuning",
)
OTHERS = {
    "explore": "says it in the line below its answer",
    "ledger": "says it in a warning",
    "report": "says it on the first page",
    "budget": "says it of what a budget holds against",
    "learn": "has lessons, not runs",
    **dict.fromkeys(("account", "glossary", "speed"), "shows no ε of a run"),
    **dict.fromkeys(("shared", "startup"), "is no page"),
}


def test_each_page_is_thought_of():
    folders = {path.parent.name for path in (REPOSITORY / "pages").glob("*/*.py")}
    assert folders == {*PAGES, *OTHERS}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_with_epsilons_says_what_seeded_noise_is_worth(page, open_page, settings, monkeypatch):
    assert "its very tagger is not protected" in SEEDED
    monkeypatch.setattr(
        Runs, "tag", lambda self, text, identities, tell: Answer({}, dict.fromkeys(identities, "None."))
    )
    audits.write(AUDIT, settings.artefacts)
    studies.write(STUDY, settings.home)
    found = open_page(page, replace(settings, published=REPOSITORY / "cached_results"))
    assert [each.value for each in found.caption].count(SEEDED) == 1
