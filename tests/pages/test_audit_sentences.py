"""The sentences most exposed to membership inference: read once for all users who may read the corpus."""

from dataclasses import replace

import pytest
import streamlit as st

from engine.access.roles import Role, User
from engine.cluster import supervisor
from engine.errors import CorpusError
from engine.service import Application
from engine.service.corpus_service import CorpusService
from pages.audit import sentences
from tests.engine.store.test_audits import MEMBERSHIP

RITA, RUDI = (User(name=f"{name}@example.org", role=Role.RUNNER) for name in ("rita", "rudi"))


@pytest.fixture
def app(shared_settings, monkeypatch):
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    st.cache_data.clear()
    opened = Application(shared_settings)
    yield opened
    opened.close()
    st.cache_data.clear()


@pytest.fixture
def corpus(app) -> str:
    """Return the name of Rita's corpus."""
    file = "".join(f"Rosa{number} B-PER\nsings O\n\n" for number in range(60)).encode()
    return app.for_user(RITA).corpora.add("songs.conll", file, types="PER")[0]


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """Return the names of the corpora that are read from now on."""
    read, names = CorpusService.training_sentences, []

    def counted(service, name, numbers):
        names.append(name)
        return read(service, name, numbers)

    monkeypatch.setattr(CorpusService, "training_sentences", counted)
    return names


def texts(app: Application, corpus: str, user: User) -> dict[int, str]:
    return sentences.texts(app.for_user(user), corpus, replace(MEMBERSHIP, at_risk=((0, 9.0), (2, 8.0))))


def test_users_of_a_corpus_share_its_texts(app, corpus, reads):
    app.for_user(RITA).access.share("corpus", corpus, shared=True)
    found = texts(app, corpus, RITA)
    assert sorted(found) == [0, 2]
    assert found[0].endswith(" sings")
    assert texts(app, corpus, RUDI) == found
    assert reads == [corpus]


def test_cached_texts_are_not_available_to_other_users(app, corpus):
    texts(app, corpus, RITA)
    with pytest.raises(CorpusError):
        texts(app, corpus, RUDI)


def test_text_is_not_cached_under_the_checksum_of_another_content(app, corpus, reads):
    service = app.for_user(RITA)
    for _ in range(2):
        with pytest.raises(CorpusError, match=rf"^corpus='{corpus}' was changed while it was read"):
            sentences._texts(service, corpus, "0" * 64, (0,))
    assert reads == [corpus, corpus]
