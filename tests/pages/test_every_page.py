"""What holds for every page, with published results and with a store that cannot be read.

A page is any folder of ``pages/`` that has a ``page.py``: a new one is tested without being listed here. Tables below
name the pages to which a rule does not apply, with the reason, and a rule that applies to such a page fails too.
"""

import pytest

from engine.errors import InvalidConfig
from engine.service import Application, TaggingResult
from engine.service.tagging_service import TaggingService
from engine.settings import REPOSITORY
from engine.store import audits, tuning_studies
from pages.shared.seeded_noise_notice import SEEDED
from pages.startup import glossary_tooltips
from tests.engine.store.test_audits import AUDIT
from tests.pages.test_tuning import STUDY

PAGES = sorted(path.parent.name for path in (REPOSITORY / "pages").glob("*/page.py"))
WITHOUT_CAPTION = {
    "account": "shows no ε of a run",
    "budget": "says it in the description of what a budget protects against",
    "explore": "says it in the line below its answer",
    "glossary": "shows no ε of a run",
    "learn": "has lessons, not runs",
    "assumptions": "says it in a warning",
    "report": "says it on the first page of the report",
    "speed": "shows no ε of a run",
}
"""Pages without the caption on seeded noise, which stands on all that show the ε of runs."""
TABLES_OF_RUNS = {"compare", "diagnose", "frontier", "paper", "planner", "practice", "runs"}
"""Pages whose tables have ε of runs: each of these tables links to the ledger."""
WITHOUT_STORE = {
    "account": "is closed where nobody signs in",
    "glossary": "reads a document",
    "learn": "keeps guesses in the address; the lesson on the price reads published results",
    "assumptions": "reads the store for the run of a link alone",
    "medical": "looks up runs of corpora that are not on this machine, which no store can have",
    "speed": "reads published measurements",
    "try_it": "reads the store where taggers of the user's own runs are kept",
    "tuning": "reads searches, which are files",
}
"""Pages that need no store in a home that has nothing else."""
VERSION = "Epsilon Explorer "


def count(elements, start: str) -> int:
    return sum(element.value.startswith(start) for element in elements)


@pytest.fixture
def everything(with_published, monkeypatch):
    """Published results, an audit and a search; taggers are not asked."""
    monkeypatch.setattr(
        TaggingService,
        "tag",
        lambda self, text, identities, tell: TaggingResult({}, dict.fromkeys(identities, "None.")),
    )
    audits.write(AUDIT, with_published.artefacts)
    tuning_studies.write(STUDY, with_published.home)
    return with_published


@pytest.fixture
def opened(open_page, open_as, everything):
    """Opens a page where all is there that it may show; that of an account for somebody who has signed in."""
    return lambda page: open_as("ada", page) if page == "account" else open_page(page, everything)


def test_the_navigation_offers_every_page(open_as, offered):
    open_as("ada", "account")
    assert sorted(offered) == sorted([*PAGES, "assumptions", "explore"]), "these two have a second, hidden address"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_what_every_page_has(page, opened, everything, monkeypatch):
    explained, mount = [], glossary_tooltips.mount
    monkeypatch.setattr(glossary_tooltips, "mount", lambda: explained.append(mount()))
    found = opened(page)
    assert not found.error
    assert len(explained) == 1
    assert count(found.caption, VERSION) == 1
    assert count(found.markdown, "### ") == 1
    assert found.main.markdown[0].value.startswith("### "), "the result comes first"
    assert [each.value for each in found.caption].count(SEEDED) == (page not in WITHOUT_CAPTION)
    check_tables(page, found, Application(everything))


def check_tables(page, found, app):
    """Each table with ε of runs links to the ledger, and the ledger knows the runs at both ends of it."""
    tables = [table.value for table in found.dataframe if "ε" in table.value.columns and page != "assumptions"]
    links = [table["ε rests on"].dropna().tolist() for table in tables]
    assert any(links) == (page in TABLES_OF_RUNS)
    for link in {end for some in links for end in (*some[:1], *some[-1:])}:
        address, _, identity = link.partition("?run=")
        assert address.endswith("assumptions")
        try:
            known = app.previews.scenario(identity).examples > 0
        except InvalidConfig as error:  # who holds what of an uneven federation stands in its corpus
            known = "needs its corpus" in str(error)
        assert known
    app.close()


def test_what_is_said_of_seeded_noise():
    assert "a seeded model is not protected" in SEEDED


@pytest.mark.parametrize("page", [page for page in PAGES if page != "account"])
def test_a_store_that_cannot_be_read_is_named_on_every_page(page, open_page, settings):
    settings.home.mkdir(parents=True)
    (settings.home / "runs.sqlite").write_bytes(b"no database, but long enough to look like one" * 200)
    found = open_page(page)
    for corpus in [box for box in found.selectbox if box.label == "Corpus"]:
        corpus.set_value("synthetic").run()  # of a corpus that is not here, nothing can be stored
        assert not found.exception
    said = any("is damaged or not a database" in each.value for each in (*found.error, *found.warning))
    assert said == (page not in WITHOUT_STORE)


def test_exceptions_are_of_pages_that_exist():
    assert {*WITHOUT_CAPTION, *TABLES_OF_RUNS, *WITHOUT_STORE} <= set(PAGES)
