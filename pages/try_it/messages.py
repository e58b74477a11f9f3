"""Texts of the page Tag text. It does not import streamlit."""

from collections.abc import Mapping, Sequence

from engine.reports.numbers import epsilon_text
from engine.service import AvailableModel, TaggingResult
from engine.tagging import published_taggers
from engine.tagging.entities import Entity, Tagged, left
from engine.tagging.missed_entities import Name, of_others
from pages.shared import address, titles
from pages.shared.messages import percent
from pages.try_it.panels import Panel

DEMONSTRATION = (
    "This is a demonstration, not a certified anonymiser. A redacted text may still identify a person, and no model "
    "finds every entity. Read the result before you share it."
)


def title(offer: AvailableModel) -> str:
    """Return the title of a model."""
    run = offer.run
    epsilon = run.final.privacy.epsilon if run.final else 0.0
    if offer.epsilon == published_taggers.PAPER:
        return f"ε = {epsilon_text(epsilon, 2)}, paper settings"
    if offer.epsilon is not None:
        return "ε = ∞, no privacy" if offer.epsilon == "inf" else f"ε = {offer.epsilon}"
    tagger, corpus = titles.TAGGERS[run.config.tagger.name], titles.corpus(run.config.corpus)
    return f"ε = {epsilon_text(epsilon)} (yours): {tagger} on {corpus}, {run.run_id[:6]}"


def by_title(answer: TaggingResult, offers: Sequence[AvailableModel]) -> dict[str, Tagged]:
    """Return the result of each model that tagged the text by its title, in the order of the offers."""
    return {title(offer): answer.tagged[offer.run.run_id] for offer in offers if offer.run.run_id in answer.tagged}


def panels(
    text: str, answer: TaggingResult, offers: Sequence[AvailableModel], known: Sequence[Entity] | None
) -> list[Panel]:
    """Return one panel for each model.

    Args:
        text: The text that was tagged.
        answer: The results of all models.
        offers: The models, in the order of the panels.
        known: The entities of the text; None where they are unknown.
    """
    by_model, result = by_title(answer, offers), []
    for offer in offers:
        name, tagged = title(offer), answer.tagged.get(offer.run.run_id)
        if tagged is None:
            reason = answer.missing.get(offer.run.run_id, "This model returned no result.")
            result.append(Panel(name, reason, None, (), ()))
            continue
        names = of_others(name, by_model) if known is None else [Name(entity) for entity in known]
        result.append(Panel(name, _facts(text, tagged, known), tagged, names, _notes(offer), address.ledger(offer.run)))
    return result


def _facts(text: str, tagged: Tagged, known: Sequence[Entity] | None) -> str:
    number = len(tagged.entities)
    found = "1 entity predicted" if number == 1 else f"{number:,} entities predicted"
    if known is None:
        return found
    staying = len(left(text, known, tagged.entities))
    return (
        f"{found}. Of {len(known):,} entities in the text, {staying:,} {'stays' if staying == 1 else 'stay'} in full "
        f"or in part after redaction ({_share(staying, known)})"
    )


def _notes(offer: AvailableModel) -> list[str]:
    """Return the recall of each type on the test set of its corpus, and the warning about its ε."""
    final = offer.run.final
    if final is None or final.test is None:
        return []
    recalls = ", ".join(f"{kind} {percent(counts.ratios.recall)}" for kind, counts in final.test.strict.items())
    notes = [f"Recall on the test set of {titles.corpus(offer.run.config.corpus)} (exact match): {recalls}."]
    return [*notes, published_taggers.warning(final.privacy.epsilon)] if offer.epsilon is not None else notes


def answer_line(text: str, results: Mapping[str, Tagged], known: Sequence[Entity] | None) -> str:
    """Return the sentence above the panels.

    Args:
        text: The text that was tagged.
        results: The results by title of the model.
        known: The entities of the text; None where they are unknown.
    """
    if not results:
        return "No model could tag this text."
    counts = [
        f"{len(tagged.entities if known is None else left(text, known, tagged.entities)):,}\u00a0at\u00a0{_short(name)}"
        for name, tagged in results.items()
    ]
    *most, last = counts
    listed = f"{', '.join(most)} and {last}" if most else last
    if known is None:
        return f"Entities predicted: {listed}."
    return f"Of {len(known):,} entities, the redacted text still shows {listed}."


def _short(name: str) -> str:
    """Return the start of a title, which holds its ε."""
    return name.split(",")[0].split(":")[0].replace(" ", "\u00a0")


def legend(known: bool) -> str:
    """Return the explanation of the markers in the panels."""
    missed = "missed by this model" if known else "missed by this model but found by another"
    return (
        f"Dashed: entities {missed}. **A missed entity stays in the redacted text.** "
        "Point at a word to see the model's tag and confidence."
    )


def _share(number: int, of: Sequence[Entity]) -> str:
    return percent(number / len(of)) if of else "0\u00a0%"
