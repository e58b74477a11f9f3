"""The rows of a ledger, and the way from one ε to another."""

from dataclasses import dataclass, replace

from engine.privacy.assumptions.evaluation import epsilon
from engine.privacy.assumptions.labels import ACCOUNTANTS, NEIGHBOURS, SAMPLINGS, TITLES, why
from engine.privacy.assumptions.lower_bounds import at_least
from engine.privacy.assumptions.scenario import FIELDS, Choices, Training
from engine.privacy.group_privacy import LARGEST_GROUP


@dataclass(frozen=True, kw_only=True)
class Row:
    """One assumption with one choice. claimed: whether that is what holds and is promised. epsilon: with it, all else
    as it is promised; None where no sound number is known. at_least: a bound from below, where ε is an upper bound that
    may be far off. choice: in words."""

    assumption: str
    choice: str
    claimed: bool
    epsilon: float | None
    at_least: float | None = None
    delta: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the way from one ε to another: which assumption is set right, and the ε there, as in :class:`Row`."""

    assumption: str
    choice: str
    epsilon: float | None
    at_least: float | None = None


def choice_text(training: Training, assumption: str, choices: Choices) -> str:
    """What is chosen of an assumption, in words."""
    unit = training.unit
    if assumption == "data":
        number = training.printed_examples if choices.printed_examples else None
        text = f"n = {number or training.examples:,}" + (" clients" if unit == "client" else "")
        if not training.several:
            return text
        own = f"of each of {training.clients:,} clients" if training.clients > 1 else "each part by itself"
        return f"{text}, {'all together' if choices.pooled else own}"
    whose = "person" if unit == "sentence" else "group"
    several = f"a {whose} with {choices.sentences:,} {unit}s"
    if choices.sentences == training.longest_document:
        several = f"a document, the longest has {choices.sentences:,} sentences"
    texts = {
        "batch": "1, taken for a micro-batch" if choices.micro_batch else f"{training.batch_size:,}",
        "accountant": ACCOUNTANTS[choices.accountant],
        "sampling": "each message paid for, whoever sends it" if training.messages else SAMPLINGS[choices.sampling],
        "neighbours": NEIGHBOURS[choices.neighbours],
        "unit": f"one {unit}" if choices.sentences == 1 else several,
        "trainings": "this one alone" if choices.trainings == 1 else f"{choices.trainings:,}",
        "delta": f"{choices.delta:g}",
        "seed": "known to the attacker" if choices.seed_known else "secret",
        "floating": "as if numbers were real",
    }
    if choices.whole_client:
        texts["unit"] = "a client, with all its sentences"
    return texts[assumption].format(unit=unit)


def alternatives(training: Training) -> dict[str, tuple[Choices, ...]]:
    """Of each assumption what may be chosen, all else as it is promised; the first is what is promised."""
    base, clients = training.promised, training.unit == "client"
    told = training.batch_size > 1 and base.sampling == "poisson" and not clients
    sizes = sorted({2, 5, 10, training.longest_document or 2} - {1})
    others: dict[str, list[Choices]] = {
        "data": [replace(base, pooled=True)] * training.several
        + [replace(base, printed_examples=True)] * (training.printed_examples is not None),
        "batch": [replace(base, micro_batch=True)] * told,
        "accountant": [replace(base, accountant=name) for name in reversed(ACCOUNTANTS) if name != base.accountant],
        "sampling": [each for each in _samplings(training) if each.sampling != base.sampling],
        "neighbours": [replace(base, neighbours=name) for name in neighbours(training) if name != base.neighbours],
        "unit": [replace(base, sentences=number) for number in sizes if number <= LARGEST_GROUP]
        + [replace(base, whole_client=True)] * (training.clients > 1),
        "trainings": [replace(base, trainings=number) for number in (5, 50)],
        "delta": [replace(base, delta=delta) for delta in (1e-6, 1e-8) if delta < base.delta],
        "seed": [replace(base, seed_known=True)],
        "floating": [],
    }
    return {name: (base, *others[name]) for name in TITLES}


def neighbours(training: Training) -> tuple[str, ...]:
    """Where clients send messages it is known who does, so that none can be left out unseen."""
    return tuple(name for name in NEIGHBOURS if not (training.messages and name == "add-or-remove"))


def samplings(training: Training) -> tuple[str, ...]:
    """A training that drew by chance was not shuffled; what it would cost if chance were trusted for nothing may be
    asked all the same."""
    if training.messages:
        return ("none",)
    return ("none", "as-poisson") if training.shuffled else ("poisson", "none")


def _samplings(training: Training) -> list[Choices]:
    """Without chance, an emptied sentence is counted beside one more or less: that moves two batches."""
    base = training.promised
    found = [replace(base, sampling=name) for name in samplings(training)]
    if base.sampling == "poisson" and training.unit == "sentence":
        found.append(replace(base, sampling="none", neighbours="zero-out"))
    return found


def rows(training: Training) -> tuple[Row, ...]:
    """Each choice of each assumption, with the ε if it alone is another one."""
    promised = training.promised
    return tuple(
        Row(
            assumption=name,
            choice=_row_text(training, name, choices),
            claimed=choices == promised,
            epsilon=epsilon(training, choices),
            at_least=at_least(training, choices),
            delta=choices.delta,
            why=why(name, training.unit),
        )
        for name, every in alternatives(training).items()
        for choices in every
    )


def _row_text(training: Training, name: str, choices: Choices) -> str:
    text = choice_text(training, name, choices)
    if name == "sampling" and choices.neighbours != training.promised.neighbours:
        text += f", {choice_text(training, 'neighbours', choices)}"
    return text


def waterfall(training: Training, start: Choices, end: Choices) -> tuple[Step, ...]:
    """From the ε of ``start`` to that of ``end``, one assumption after another in the order of ``TITLES``; those that
    are equal in both are left out. The first step is the start, without an assumption."""
    now, found = start, [Step(assumption="", choice="", epsilon=epsilon(training, start))]
    for name, fields in FIELDS.items():
        after = replace(now, **{field: getattr(end, field) for field in fields})
        if after != now:
            now = after
            found.append(
                Step(
                    assumption=name,
                    choice=choice_text(training, name, now),
                    epsilon=epsilon(training, now),
                    at_least=at_least(training, now),
                )
            )
    return tuple(found)


AS_PRINTED = Choices(accountant="rdp-classic", sampling="as-poisson", micro_batch=True, printed_examples=True)
"""How the ε that dp-fl-ner prints come out."""


def printed_row(sigma: float) -> Training:
    """The setting of a row of Table 2 of *Differentially Private Sequence Tagging in a Federated Framework*."""
    return Training(
        examples=14_041, batch_size=32, epochs=10, noise_multiplier=sigma, shuffled=True, printed_examples=14_987
    )
