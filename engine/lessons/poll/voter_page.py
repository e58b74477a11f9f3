"""The page on the voters' phones, without scripts and external resources."""

import base64
import hashlib

from tornado.template import Template

_STYLE = """
:root { color-scheme: light dark; }
body { font: 1.15rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 32rem; padding: 1.2rem;
  background: #fcfbf8; color: #22292d; }
h1 { font-size: 1.25rem; margin: 0 0 1rem; line-height: 1.4; }
label, output { display: block; margin-bottom: 0.5rem; }
.answer { display: flex; align-items: center; gap: 0.6rem; }
input { font: inherit; font-size: 1.6rem; width: 7rem; padding: 0.5rem; border: 1px solid #8a8270;
  border-radius: 0.45rem; background: #fff; color: inherit; }
button { font: inherit; font-weight: 600; padding: 0.7rem 1.8rem; margin-top: 1.2rem; border: 0;
  border-radius: 0.45rem; background: #0b7a67; color: #fff; }
button:focus-visible, input:focus-visible, a:focus-visible { outline: 3px solid currentColor; outline-offset: 2px; }
a { color: #0b6b5b; }
.said { padding: 0.7rem 0.9rem; border-radius: 0.45rem; background: #efece4; }
small { display: block; margin-top: 2rem; color: #635d50; }
@media (prefers-color-scheme: dark) {
  body { background: #14191c; color: #e8e5dc; }
  input { background: #1d2428; }
  a { color: #63c7b4; }
  .said { background: #232a2e; }
  small { color: #b3ab99; }
}
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
"""Content security policy of the page: its own style, a form to itself, no frames, nothing else."""

_PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{% if again %}<meta http-equiv="refresh" content="{{ again }}; url=/">{% end %}
<title>Your guess · Epsilon Explorer</title>
<link rel="icon" href="data:,">
<style>{% raw style %}</style>
</head>
<body>
{% if said %}<p class="said" role="status">{{ said }}</p>{% end %}
{% if asked %}
<h1>{{ asked.text }}</h1>
{% if form %}
<form method="post" action="/">
<input type="hidden" name="round" value="{{ token }}">
<label for="guess">{{ asked.label }}</label>
<div class="answer">
<input id="guess" name="guess" type="number" inputmode="decimal" min="{{ f'{asked.low:.12g}' }}"
 max="{{ f'{asked.high:.12g}' }}" step="{{ f'{asked.step:.12g}' }}" required autofocus autocomplete="off">
<span>{{ asked.unit.strip() }}</span>
</div>
<button>Send</button>
</form>
<small>From {{ f'{asked.low:g}' }} to {{ f'{asked.high:g}' }}. The page sends only the number, not your name. The
teacher's computer keeps it in memory until the program ends.</small>
{% else %}
<p><a href="/?change">Change answer</a></p>
{% end %}
{% end %}
</body>
</html>
""",
    autoescape="xhtml_escape",
    whitespace="oneline",
)


def page(**parts: object) -> bytes:
    """Return the page, with all text escaped.

    Args:
        parts: ``said``: a message at the top, may be empty. ``asked``: a Question or None. ``token``: the token of its
            round. ``form``: whether it can be answered now. ``again``: seconds until the phone reloads the page, 0 for
            never.
    """
    return _PAGE.generate(style=_STYLE, **parts)
