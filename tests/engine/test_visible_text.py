"""Controls in text from outside command no terminal and turn no other text; JSON keeps its value."""

import json

from hypothesis import given
from hypothesis import strategies as st

from engine.cli.output import write
from engine.visible_text import visible, visible_json


def test_controls_have_their_code_points():
    assert visible("a\x1b[31m\x9b\u202e\u2028\ud800") == "a[U+001B][31m[U+009B][U+202E][U+2028][U+D800]"
    assert visible("é א ‌\tb\nc\u00a0") == "é א ‌\tb\nc\u00a0"


@given(st.text())
def test_json_keeps_its_value_and_has_no_controls(text):
    encoded = visible_json(json.dumps({"a": text}, ensure_ascii=False))
    assert json.loads(encoded) == {"a": text}
    assert visible(encoded) == encoded


def test_commands_print_no_escape_sequences(capsys):
    write(False, {}, "a corpus\x1b]0;title\x07\x9b31m")
    write(True, {"name": "\x9b31m\u202e"}, "")
    text, encoded = capsys.readouterr().out.splitlines()
    assert text == "a corpus[U+001B]]0;title[U+0007][U+009B]31m"
    assert encoded == '{"name": "\\u009b31m\\u202e"}'
