"""Each page, opened by another user with the identities of a user's run and corpus in the link."""

from dataclasses import replace

import pytest
import streamlit as st
from sqlalchemy import select

from engine.access.roles import Role, User
from engine.cluster import supervisor
from engine.config import run_id
from engine.errors import CorpusError
from engine.service import Application
from engine.service.corpus_service import CorpusService
from engine.store.schema import bookings, grants, notes, records, runs
from tests.engine.factories import SMALL, provenance, record
from tests.pages.test_every_page import PAGES

NOTE, TITLE, WORD = "about the ward", "seaside", "Xylographa"
"""Parts of what Rita has: of the note on her run, of the name of her corpus, and of each of its sentences."""


@pytest.fixture
def app(shared_settings, monkeypatch):
    """Return a shared dashboard without workers or a connection to other machines."""

    def refuse(*_, **__):
        raise CorpusError("There is no connection.")

    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    monkeypatch.setattr(CorpusService, "download", refuse)
    monkeypatch.setattr(st, "logout", lambda: None)
    opened = Application(shared_settings)
    yield opened
    opened.close()


@pytest.fixture
def ritas(app):
    """Return the identity of Rita's finished run on her corpus, and the corpus's name."""
    rita = app.for_user(User(name="rita@example.org", role=Role.RUNNER))
    file = "".join(f"{WORD}{number} B-PER\nran O\n\n" for number in range(60)).encode()
    corpus, _ = rita.corpora.add(f"{TITLE}.conll", file, types="PER")
    config = replace(SMALL, corpus=corpus)
    checksum = rita.queries.corpus(config).checksum
    identity = run_id(config, checksum)
    rita._context.store.submit(identity, config, checksum)
    claim = app._context.all_users_store.claim(identity, "me/1")
    for number in range(3):
        app._context.all_users_store.append(claim, record(number))
    app._context.all_users_store.finish(claim, provenance(checksum))
    rita.runs.write_note(identity, NOTE)
    return identity, corpus


@pytest.fixture
def open_linked(open_page, open_as, shared_settings, ritas):
    """Return a function that opens a page as another user, without and with Rita's run and corpus in the link."""
    identity, corpus = ritas
    fields = {"run": identity, "beside": identity, "runs": identity, "corpus": corpus}

    def open_at(name, page, *, linked):
        test = open_as(name, page)  # which also replaces the claims
        return open_page(page, shared_settings, **fields) if linked else test

    return open_at


def content(test):
    """Return all texts, options, tables and charts of a page, also of its folded parts."""
    elements = [*test.main, *test.sidebar]
    tables = [table.value.to_csv() for table in (*test.dataframe, *test.table)]
    return "\n".join([*(str(element.proto) for element in elements if hasattr(element, "proto")), *tables])


def state(app):
    """Return all that is stored: rows of the database, and names of corpora and results."""
    tables = runs, records, notes, grants, bookings
    engine, _ = app._context.all_users_store._database.open()
    with engine.connect() as connection:
        rows = {table.name: connection.execute(select(table)).all() for table in tables}
    home = app.settings.home
    return rows, sorted(path for folder in ("corpora", "audits", "models") for path in (home / folder).rglob("*"))


@pytest.mark.repeats(area="pages", after=2)
@pytest.mark.parametrize("page", PAGES)
def test_page_shows_and_changes_nothing_of_another_user(page, app, ritas, open_linked):
    identity, corpus = ritas
    for name in ("rudi", "vera"):
        shown = content(open_linked(name, page, linked=False))
        assert not [secret for secret in (NOTE, WORD, TITLE, identity, corpus) if secret in shown]
        test = open_linked(name, page, linked=True)
        shown = content(test)
        assert not [secret for secret in (NOTE, WORD) if secret in shown]
        before = state(app)
        for label in [button.label for button in test.button if not button.disabled]:
            for button in [each for each in test.button if each.label == label and not each.disabled][:1]:
                button.click().run()
                assert not test.exception
        if name == "vera":
            assert state(app) == before
        else:
            assert_kept(before, state(app))


def assert_kept(before, after):
    """Check that nothing was removed or changed."""
    assert set(before[1]) <= set(after[1])
    for table, rows in before[0].items():
        assert set(rows) <= set(after[0][table])


def test_owner_sees_run_note_and_corpus(open_linked, ritas):
    shown = content(open_linked("rita", "runs", linked=True))
    assert all(part in shown for part in (NOTE, *ritas))
