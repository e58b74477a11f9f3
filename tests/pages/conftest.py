"""What tests of pages share: the app without a browser."""

import functools

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.settings import REPOSITORY, Settings
from pages.shared import door

st_navigation = st.navigation


def _opened_at(navigation, first, pages, **more):
    """The app's own navigation, with another page than Explore in front: AppTest alone would leave app.py out."""
    for page in (page for group in pages.values() for page in group):
        page._default = page._page.stem == first
    return navigation(pages, **more)


@pytest.fixture
def open_page(settings, monkeypatch):
    """Opens a page by its name, with a home of its own or with other settings; ``fields`` stand in the address."""

    def open_at(page: str = "explore", here: Settings = settings, **fields: str) -> AppTest:
        monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls: here))
        st.cache_resource.clear()
        monkeypatch.setattr(st, "navigation", functools.partial(_opened_at, st_navigation, page))
        test = AppTest.from_file(str(REPOSITORY / "app.py"), default_timeout=60)
        for name, value in fields.items():
            test.query_params[name] = value
        test.run()
        assert not test.exception
        return test

    monkeypatch.setattr(door, "_behind_the_scenes", lambda opened: None)
    yield open_at
    st.cache_resource.clear()
