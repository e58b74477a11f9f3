"""Rules for every page, with published results and with a damaged store.

A page is a folder of ``pages/`` with a ``page.py``; a new page is tested without an entry here. The tables below list
exceptions with their reasons; an exception that does not hold any more fails, too.
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
from tests.pages.reading import each_tab
from tests.pages.test_tuning import STUDY

PAGES = sorted(path.parent.name for path in (REPOSITORY / "pages").glob("*/page.py"))
WITHOUT_CAPTION = {
    "account": "shows no ε of a run",
    "budget": "states it in the description of the budget",
    "claim": "shows no ε of a run",
    "explore": "states it below its result",
    "glossary": "shows no ε of a run",
    "home": "states it below its picture",
    "learn": "has lessons, not runs",
    "assumptions": "states it in a warning",
    "report": "states it on the first page of the report",
    "speed": "shows no ε of a run",
}
"""Pages without the caption on seeded noise, which all pages with the ε of runs have."""
TABLES_OF_RUNS = {"compare", "diagnose", "frontier", "paper", "planner", "practice", "runs"}
"""Pages with tables of runs' ε, each of which links to page Assumptions."""
WITHOUT_STORE = {
    "account": "is hidden where sign-in is disabled",
    "claim": "computes from the numbers of a claim",
    "glossary": "reads a document",
    "home": "shows stored values of published runs",
    "medical": "reads the store only with installed corpora",
    "learn": "stores guesses in the address; the lesson on utility reads published results",
    "assumptions": "reads the store only for a run in the link",
    "speed": "reads published measurements",
    "try_it": "reads the store only for saved models of the user",
    "tuning": "reads searches, which are files",
}
"""Pages that need no store in an empty home."""
VERSION = "Epsilon Explorer "


def count(elements, start: str) -> int:
    return sum(element.value.startswith(start) for element in elements)


@pytest.fixture
def complete_settings(with_published, monkeypatch):
    """Return settings with published results, an audit and a search; replace the tagging service."""
    monkeypatch.setattr(
        TaggingService,
        "tag",
        lambda self, text, identities, tell: TaggingResult({}, dict.fromkeys(identities, "None.")),
    )
    audits.write(AUDIT, with_published.artefacts)
    tuning_studies.write(STUDY, with_published.home)
    return with_published


@pytest.fixture
def open_complete(open_page, open_as, complete_settings):
    """Return a function that opens a page with all data; *Account* is opened for a signed-in user."""
    return lambda page: open_as("ada", page) if page == "account" else open_page(page, complete_settings)


def test_navigation_offers_every_page(open_as, navigation_folders):
    open_as("ada", "account")
    assert sorted(navigation_folders) == sorted([*PAGES, "assumptions"]), "it has a second, hidden address"


@pytest.mark.contract
@pytest.mark.parametrize("page", PAGES)
def test_page_has_all_common_elements(page, open_complete, complete_settings, monkeypatch):
    mounted, mount = [], glossary_tooltips.mount
    monkeypatch.setattr(glossary_tooltips, "mount", lambda: mounted.append(mount()))
    test = open_complete(page)
    assert not test.error
    assert len(mounted) == 1
    assert count(test.caption, VERSION) == 1
    assert count(test.markdown, "### ") == 1
    assert test.main.markdown[0].value.startswith("### "), "the result comes first"
    assert [caption.value for caption in test.caption].count(SEEDED) == (page not in WITHOUT_CAPTION)
    check_tables(page, test, Application(complete_settings))
    assert not test.error


def check_tables(page, test, app):
    """Check that each table of runs' ε links to page Assumptions, which knows its first and last run."""
    every = [table.value for _ in each_tab(test, page) for table in test.dataframe]
    tables = [table for table in every if "ε" in table.columns and page != "assumptions"]
    links = [table["ε rests on"].dropna().tolist() for table in tables]
    assert any(links) == (page in TABLES_OF_RUNS)
    for link in {link for column in links for link in (*column[:1], *column[-1:])}:
        address, _, identity = link.partition("?run=")
        assert address.endswith("assumptions")
        try:
            known = app.previews.scenario(identity).examples > 0
        except InvalidConfig as error:  # the partition of an uneven federation follows from its corpus
            known = "need its corpus" in str(error)
        assert known
    app.close()


def test_caption_on_seeded_noise_denies_protection():
    assert "Such a model is not protected" in SEEDED


@pytest.mark.parametrize("page", [page for page in PAGES if page != "account"])
def test_damaged_store_is_reported_on_every_page(page, open_page, settings):
    settings.home.mkdir(parents=True)
    (settings.home / "runs.sqlite").write_bytes(b"no database, but long enough to look like one" * 200)
    test = open_page(page)
    for corpus in [box for box in test.selectbox if box.label == "Corpus"]:
        corpus.set_value("synthetic").run()  # the store has no runs of a corpus that is not installed
        assert not test.exception
    is_reported = any("is damaged or not a database" in message.value for message in (*test.error, *test.warning))
    assert is_reported == (page not in WITHOUT_STORE)


def test_exceptions_refer_to_existing_pages():
    assert {*WITHOUT_CAPTION, *TABLES_OF_RUNS, *WITHOUT_STORE} <= set(PAGES)
