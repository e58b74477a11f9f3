"""Sentences and tokens: positions restore any text, in linear time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tagging.tokenization import LONGEST_SENTENCE, LONGEST_WORD, readable, split

HOSTILE = {
    "one word": "x" * 20_000,
    "brackets": "(" * 5_000,
    "emoji": "🎉" * 2_000,
    "right to left": "ذهبت ليلى إلى عمان. " * 20,
    "Chinese": "我叫小明。我住在北京。" * 50,
    "HTML": "<b onclick=alert(1)>Rosa</b> & <script>",
    "Markdown": "**Rosa** [x](http://a) `$y$` :red[z]",
    "NUL and half characters": "Rosa\x00 met \ud800 Ann\udfff.",
    "line ends": "A.\r\n\r\nB\u2028C\tD\x0bE",
    "nothing": "",
    "white space": " \n\n \t",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_positions_restore_hostile_text(text):
    assert_restores(text)


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=120))
def test_positions_restore_any_text(text):
    assert_restores(text)


def assert_restores(text: str) -> None:
    found = split(text)
    at, back = 0, ""
    for start, end in found.spans:
        assert at <= start < end
        assert not text[at:start].strip()
        back += text[at:start] + text[start:end]
        at = end
    assert not text[at:].strip()
    assert back + text[at:] == text
    assert sum(map(len, found.sentences)) == len(found.spans)
    assert all(found.sentences)
    words = [word for sentence in found.sentences for word in sentence]
    assert [len(word) for word in words] == [end - start for start, end in found.spans]
    assert all(len(word) <= LONGEST_WORD for word in words)
    assert all(len(sentence) <= LONGEST_SENTENCE for sentence in found.sentences)


def test_sentences_end_with_full_stop_or_blank_line():
    found = split("Dear Dr. Hale,\n\nI met Anna. She is ill\nand tired.\n\nYours")
    assert found.sentences == [
        ["Dear", "Dr.", "Hale", ","],
        ["I", "met", "Anna", "."],
        ["She", "is", "ill", "and", "tired", "."],
        ["Yours"],
    ]


def test_hyphenated_word_is_one_token():
    assert split("Mei-Ling, U.K.-based, A–B, yes--no").sentences == [
        ["Mei-Ling", ",", "U.K.-based", ",", "A", "–", "B", ",", "yes", "--", "no"]
    ]


def test_unreadable_characters_keep_their_positions():
    assert readable("a\x00b\ud800c") == "a\ufffdb\ufffdc"
    assert split("Rosa\ud800 Ann").sentences == [["Rosa", "\ufffd", "Ann"]]


def test_long_sentence_is_split():
    sentences = split("word " * (2 * LONGEST_SENTENCE + 1)).sentences
    assert [len(sentence) for sentence in sentences] == [LONGEST_SENTENCE, LONGEST_SENTENCE, 1]
