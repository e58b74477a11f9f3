"""A drawing of one hospital's tagger and of what the server sees of it: HTML, no streamlit.

Every name in it is ours; nothing that a visitor typed is drawn.
"""

from collections.abc import Sequence

from engine.experiments.papers.fedner_2020 import NOBODY, PLATFORM, SENTENCE
from engine.experiments.shared_parameters import Part, sent

_TITLES = {
    "characters": "Characters of each word",
    "convolution": "Convolution over neighbouring words",
    "lstm": "LSTM in both directions",
    "hidden": "Hidden layer",
    "scores": "Scores of its own entity types, CRF",
}
_PROMISES = {
    NOBODY: (
        "<b>No promise.</b> Sentences do not travel, and yet from the gradient of a small batch words have been read "
        "back exactly (Petrov et al. 2024)."
    ),
    SENTENCE: (
        "The hospital clips what each sentence changes, in <b>all</b> of its tagger, and adds noise before anything "
        "leaves or stays. What is sent tells little of any one sentence: that is its ε."
    ),
    PLATFORM: (
        "The hospital clips its whole update, adds its share of the noise, and hides it under masks that cancel in "
        "the sum. The <b>sum alone</b> is seen, and it tells little of any whole hospital: that is its ε. Inside, it "
        "learns without noise."
    ),
}
_STYLE = """
<style>
.leaving { display: flex; flex-wrap: wrap; gap: 12px 20px; align-items: stretch; font-size: 0.9rem;
  margin: 4px 0 8px; }
.leaving > div { border: 1px solid rgba(128,128,118,.45); border-radius: 8px; padding: 10px 12px; }
.leaving .hospital { flex: 3 1 320px; } .leaving .server { flex: 2 1 240px; }
.leaving h4 { margin: 0 0 8px; padding: 0; font-size: 0.95rem; font-weight: 600; }
.leaving .part { display: flex; justify-content: space-between; gap: 12px; padding: 5px 8px; margin: 4px 0;
  border-radius: 5px; border-left: 5px solid transparent; }
.leaving .kept { background: rgba(184,169,135,.20); border-left-color: #b8a987; }
.leaving .sent { background: rgba(14,140,118,.17); border-left-color: #0e8c76; }
.leaving .public { border: 1px dashed rgba(128,128,118,.6); }
.leaving .part span:last-child { text-align: right; white-space: nowrap; }
.leaving p { margin: 6px 0; }
</style>
"""


def drawing(found: Sequence[Part], inputs: str, scope: str, *, each_step: bool, together: float = 1.0) -> str:
    """Parts from the top down, with what happens to each; beside it the server. inputs: what is public below them all.
    scope: whom noise protects. each_step: whether gradients travel, not weights once a round. together: share of the
    steps after which each hospital goes on alone."""
    rows = "".join(_row(part) for part in reversed(found))
    known = found[-1].leaves
    stays = "Its sentences never leave. " + (
        "Its entity types are known to all, who share one set." if known else "Nor do its entity types."
    )
    return (
        f'{_STYLE}<div class="leaving" role="group" aria-label="What leaves each hospital">'
        f'<div class="hospital"><h4>Inside each hospital</h4>{rows}'
        f'<div class="part public"><span>{inputs}</span><span>public, fixed</span></div>'
        f"<p>{stays}</p></div>"
        f'<div class="server"><h4>What the server sees</h4>{_server(found, scope, each_step)}'
        f"{_parting(found, scope, together)}</div></div>"
    )


def _row(part: Part) -> str:
    kind, said = ("sent", "leaves ⇢") if part.leaves else ("kept", "stays")
    title = _TITLES.get(part.name, part.name)
    if part.name == "scores" and part.leaves:
        title = "Scores of the entity types of all, CRF"
    return f'<div class="part {kind}"><span>{title}</span><span>{part.weights:,} weights · <b>{said}</b></span></div>'


def _server(found: Sequence[Part], scope: str, each_step: bool) -> str:
    number = sent(found)
    if not number:
        return "<p>Nothing. Each hospital learns alone.</p>"
    what, when = ("the gradient of", "At each step") if each_step else ("the change of", "Once a round")
    size = 4 * number / 1e6
    said = [f"{when}, from each hospital: {what} {number:,} weights, {size:.2g} MB."]
    if scope == PLATFORM:
        said = [f"{when} the sum of what all hospitals changed in {number:,} weights, {size:.2g} MB from each."]
    said.append(_PROMISES[scope])
    weights = "equally" if scope == PLATFORM else "by how many sentences each has"
    said.append(f"It joins them, {weights}, and sends the result back to all.")
    return "".join(f"<p>{text}</p>" for text in said)


def _parting(found: Sequence[Part], scope: str, together: float) -> str:
    """What is said of hospitals that go on alone after a while; empty where they do not."""
    if together == 1 or not sent(found):
        return ""
    noise = " Noise is added in these steps too, and ε counts them." if scope == SENTENCE else ""
    return (
        f"<p>That ends after <b>{100 * together:.0f} % of the steps</b>. From then on nothing is sent: each hospital "
        f"trains all parts by itself, from what all have learned, and what it learns then stays with it.{noise}</p>"
    )
