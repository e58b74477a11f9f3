"""Page Home: its picture has the values of published runs; old links and the last page open again."""

import pytest
import streamlit as st

from benchmarks import home_picture
from engine.service import Application
from engine.tagging.examples import examples
from pages.home import picture
from pages.startup import last_page


@pytest.fixture
def cookies(monkeypatch) -> dict[str, str]:
    """Replace the cookies of the browser, which AppTest does not have."""
    values: dict[str, str] = {}
    monkeypatch.setattr(type(st.context), "cookies", values)
    return values


class TestPicture:
    def test_f1_is_that_of_the_published_runs(self, with_published) -> None:
        app = Application(with_published)
        for name, configs in home_picture.configurations(app).items():
            stored = [{key: point[key] for key in ("epsilon", "f1")} for point in picture.values()["series"][name]]
            assert stored == [home_picture.point(config, app) for config in configs]
        app.close()

    def test_points_ascend_and_have_a_value_for_each_name(self) -> None:
        names = examples()[picture.values()["letter"]].names
        for points in picture.values()["series"].values():
            *finite, last = [point["epsilon"] for point in points]
            assert finite == sorted(finite)
            assert last is None
            assert {len(point["found"]) for point in points} == {len(names)}
            assert {value for point in points for value in point["found"]} <= {0, 1}

    def test_recommended_settings_find_more_names_at_each_epsilon(self) -> None:
        paper, recommended = (
            {point["epsilon"]: sum(point["found"]) for point in picture.values()["series"][name]}
            for name in ("paper", "recommended")
        )
        assert min(recommended.values()) > max(paper.values())

    @pytest.mark.repeats(area="dashboard")
    def test_names_are_those_that_the_published_taggers_find(self, with_published) -> None:
        app, letter = Application(with_published), examples()[picture.values()["letter"]]
        tagged = 0
        for name, configs in home_picture.configurations(app).items():
            for config, point in zip(configs, picture.values()["series"][name], strict=True):
                run = app.queries.find(config)
                if run and app.models.exists(run.run_id):
                    model = app.models.load(run.run_id)
                    assert home_picture.marked(letter, model, app.settings) == point["found"]
                    tagged += 1
        app.close()
        assert tagged == 5


class TestAddress:
    def test_a_link_to_settings_opens_explore(self, open_page, with_published) -> None:
        test = open_page("home", with_published, noise_multiplier="2")
        assert test.query_params["noise_multiplier"] == "2"
        assert "At ε" in test.markdown[0].value

    @pytest.mark.parametrize(
        ("cookie", "start"),
        [
            ("", "See what privacy costs"),
            ("nowhere?x=1", "See what privacy costs"),
            ("?noise_multiplier=2", "See what privacy costs"),
            ("learn", "Privacy lessons"),
            ("explore%3Fnoise_multiplier%3D2", "At ε"),
        ],
    )
    def test_the_last_page_opens_again(self, open_page, with_published, cookies, cookie, start) -> None:
        cookies[last_page.COOKIE] = cookie
        test = open_page("home", with_published)
        assert start in test.markdown[0].value
