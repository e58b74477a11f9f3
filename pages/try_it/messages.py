"""What Try says: no streamlit."""

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
    "This is a demonstration, no certified anonymiser. Nothing here promises that a text without its names tells "
    "nobody who is meant, and no tagger finds every name: read what leaves your hands."
)


def title(offer: AvailableModel) -> str:
    """What a tagger is called."""
    run = offer.run
    epsilon = run.final.privacy.epsilon if run.final else 0.0
    if offer.epsilon == published_taggers.PAPER:
        return f"ε = {epsilon_text(epsilon, 2)}, the paper's setting"
    if offer.epsilon is not None:
        return "ε = ∞, no privacy" if offer.epsilon == "inf" else f"ε = {offer.epsilon}"
    tagger, corpus = titles.TAGGERS[run.config.tagger.name], titles.corpus(run.config.corpus)
    return f"ε = {epsilon_text(epsilon)} (yours): {tagger} on {corpus}, {run.run_id[:6]}"


def by_title(answer: TaggingResult, offers: Sequence[AvailableModel]) -> dict[str, Tagged]:
    """What each tagger that could read the text says of it, in the order of the offers."""
    return {title(offer): answer.tagged[offer.run.run_id] for offer in offers if offer.run.run_id in answer.tagged}


def panels(
    text: str, answer: TaggingResult, offers: Sequence[AvailableModel], known: Sequence[Entity] | None
) -> list[Panel]:
    """A panel for each tagger. known: the names that are in the text, None where nobody knows."""
    every, found = by_title(answer, offers), []
    for offer in offers:
        name, tagged = title(offer), answer.tagged.get(offer.run.run_id)
        if tagged is None:
            reason = answer.missing.get(offer.run.run_id, "It said nothing.")
            found.append(Panel(name, reason, None, (), ()))
            continue
        names = of_others(name, every) if known is None else [Name(entity) for entity in known]
        found.append(Panel(name, _facts(text, tagged, known), tagged, names, _notes(offer), address.ledger(offer.run)))
    return found


def _facts(text: str, tagged: Tagged, known: Sequence[Entity] | None) -> str:
    number = len(tagged.entities)
    found = "1 name found" if number == 1 else f"{number:,} names found"
    if known is None:
        return found
    staying = len(left(text, known, tagged.entities))
    return f"{found}. Of the {len(known):,} that are there, {staying:,} stay in the text ({_share(staying, known)})"


def _notes(offer: AvailableModel) -> list[str]:
    """Recall of each type on the test part of its corpus, and what its ε is worth."""
    final = offer.run.final
    if final is None or final.test is None:
        return []
    each = ", ".join(f"{kind} {percent(counts.ratios.recall)}" for kind, counts in final.test.strict.items())
    notes = [f"Of the names in {titles.corpus(offer.run.config.corpus)}'s test part it finds, exactly: {each}."]
    return [*notes, published_taggers.warning(final.privacy.epsilon)] if offer.epsilon is not None else notes


def answer_line(text: str, said: Mapping[str, Tagged], known: Sequence[Entity] | None) -> str:
    """The sentence above the panels. said: by title of the tagger."""
    if not said:
        return "No tagger could read this text."
    counts = [
        f"{len(each.entities if known is None else left(text, known, each.entities)):,}\u00a0at\u00a0{_short(name)}"
        for name, each in said.items()
    ]
    *most, last = counts
    listed = f"{', '.join(most)} and {last}" if most else last
    return (
        f"Names found: {listed}." if known is None else f"Of {len(known):,} names, so many stay in the text: {listed}."
    )


def _short(name: str) -> str:
    """The ε of a title, which begins with it, or with whose it is."""
    return name.split(",")[0].split(":")[0].replace(" ", "\u00a0")


def legend(known: bool) -> str:
    """How to read the panels."""
    missed = "that is not found" if known else "that another tagger finds and this one does not"
    return (
        f"Dashed and marked *missed*: words of a name {missed}. **A missed name is a name that stays in the text.** "
        "Point at a word to see how sure a tagger is of it."
    )


def _share(number: int, of: Sequence[Entity]) -> str:
    return percent(number / len(of)) if of else "0\u00a0%"
