"""Diagram of the layers of one silo's model and of the messages to the server, as HTML. Without Streamlit.

All text in it is fixed; it has no user input, so nothing needs escaping.
"""

from collections.abc import Sequence

from engine.experiments.papers.fedner_2020 import PLATFORM, SENTENCE, UNPROTECTED
from engine.experiments.shared_parameters import Part, sent

_TITLES = {
    "characters": "Characters of each word",
    "convolution": "Convolution over neighbouring words",
    "lstm": "LSTM in both directions",
    "hidden": "Hidden layer",
    "scores": "Scores of the silo's entity types, CRF",
}
"""Titles of the layers of a model."""
_GUARANTEES = {
    UNPROTECTED: (
        "<b>No privacy guarantee.</b> Sentences stay in the silo. Still, an attacker can reconstruct words exactly "
        "from the gradient of a small batch (Petrov et al. 2024)."
    ),
    SENTENCE: (
        "The silo clips the gradient of each sentence over <b>all</b> layers and adds noise before any weight "
        "changes. ε bounds what the messages reveal about any one sentence."
    ),
    PLATFORM: (
        "The silo clips its whole update, adds its share of the noise, and encrypts the result with masks that cancel "
        "in the sum. The server sees <b>only the sum</b>. ε bounds what the sum reveals about any one silo. Inside the "
        "silo, training has no noise."
    ),
}
"""Privacy guarantee by the unit that the noise protects."""
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


def diagram(parts: Sequence[Part], inputs: str, scope: str, *, each_step: bool, together: float = 1.0) -> str:
    """Return the diagram: the layers from top to bottom, and the messages that the server receives.

    Args:
        parts: The layers of the largest model, from bottom to top.
        inputs: The public inputs below all layers.
        scope: The privacy unit: one of :data:`fedner_2020.SCOPES`.
        each_step: Whether silos send a gradient at every step; otherwise they send weights once a round.
        together: Share of the steps in (0, 1] after which each silo trains alone.
    """
    rows = "".join(_row(part) for part in reversed(parts))
    common_types = parts[-1].leaves
    stays = (
        "The sentences of a silo never leave it. All silos share one set of entity types."
        if common_types
        else "The sentences and the entity types of a silo never leave it."
    )
    return (
        f'{_STYLE}<div class="leaving" role="group" aria-label="Data that leaves each silo">'
        f'<div class="hospital"><h4>Inside each silo</h4>{rows}'
        f'<div class="part public"><span>{inputs}</span><span>public, frozen</span></div>'
        f"<p>{stays}</p></div>"
        f'<div class="server"><h4>Received by the server</h4>{_server(parts, scope, each_step)}'
        f"{_alone_afterwards(parts, scope, together)}</div></div>"
    )


def _row(part: Part) -> str:
    kind, label = ("sent", "shared ⇢") if part.leaves else ("kept", "private")
    title = _TITLES.get(part.name, part.name)
    if part.name == "scores" and part.leaves:
        title = "Scores of all silos' entity types, CRF"
    return f'<div class="part {kind}"><span>{title}</span><span>{part.weights:,} weights · <b>{label}</b></span></div>'


def _server(parts: Sequence[Part], scope: str, each_step: bool) -> str:
    number = sent(parts)
    if not number:
        return "<p>Nothing. Each silo trains alone.</p>"
    what, when = ("the gradient", "At each step") if each_step else ("the update", "Once a round")
    size = 4 * number / 1e6
    paragraphs = [f"{when}, from each silo: {what} of {number:,} weights, {size:.2g} MB."]
    if scope == PLATFORM:
        paragraphs = [f"{when}: the sum of all silos' updates of {number:,} weights, {size:.2g} MB from each silo."]
    paragraphs.append(_GUARANTEES[scope])
    averaged = "gradients" if each_step else "updates"
    proportion = "with equal weights" if scope == PLATFORM else "in proportion to each silo's number of sentences"
    paragraphs.append(f"The server averages the {averaged} {proportion}, and sends the mean to all silos.")
    return "".join(f"<p>{text}</p>" for text in paragraphs)


def _alone_afterwards(parts: Sequence[Part], scope: str, together: float) -> str:
    """Return a paragraph on silos that train alone after a share of the steps; empty if they do not."""
    if together == 1 or not sent(parts):
        return ""
    noise = " These steps have noise too, and ε counts them." if scope == SENTENCE else ""
    return (
        f"<p>Sharing ends after <b>{100 * together:.0f} % of the steps</b>. Then nothing is sent: each silo trains "
        f"all layers alone, starting from the shared weights, and keeps the result.{noise}</p>"
    )
