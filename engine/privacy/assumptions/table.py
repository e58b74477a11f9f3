"""The table of assumptions: ε for each choice, and the steps from one ε to another."""

from dataclasses import dataclass, replace

from engine.privacy.assumptions.evaluation import epsilon
from engine.privacy.assumptions.labels import ACCOUNTANTS, BY_ADDITION, NEIGHBOURS, SAMPLINGS, TITLES, why
from engine.privacy.assumptions.lower_bounds import at_least
from engine.privacy.assumptions.scenario import FIELDS, Choices, Training
from engine.privacy.group_privacy import LARGEST_GROUP


@dataclass(frozen=True, kw_only=True)
class Row:
    """One choice of one assumption.

    Args:
        assumption: Key of ``TITLES``.
        choice: Text of the choice.
        claimed: Whether the choice holds for the training and is part of its guarantee.
        epsilon: ε with this choice and the guarantee's choices otherwise; None if no sound value is known.
        at_least: Lower bound on ε, where ``epsilon`` is an upper bound that may be far from the true value.
        delta: δ of this row.
        why: Effect of the assumption on ε.
    """

    assumption: str
    choice: str
    claimed: bool
    epsilon: float | None
    at_least: float | None = None
    delta: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step from one ε to another: the corrected assumption, its choice, and ε as in :class:`Row`."""

    assumption: str
    choice: str
    epsilon: float | None
    at_least: float | None = None


def choice_text(training: Training, assumption: str, choices: Choices) -> str:
    """Return the text of the choice of an assumption."""
    unit = training.unit
    if assumption == "data":
        number = training.printed_examples if choices.printed_examples else None
        text = f"n = {number or training.examples:,} {'clients' if unit == 'client' else 'sentences'}"
        if not training.several:
            return text
        own = f"divided among {training.clients:,} clients" if training.clients > 1 else "each part separately"
        return f"{text} in total, {'pooled' if choices.pooled else own}"
    whose = "person" if unit == "sentence" else "group"
    group = f"a {whose} with {choices.sentences:,} {unit}s"
    if choices.sentences == training.longest_document:
        group = f"one document (the longest has {choices.sentences:,} sentences)"
    texts = {
        "batch": "1 (micro-batch)" if choices.micro_batch else f"{training.batch_size:,}",
        "accountant": ACCOUNTANTS[choices.accountant],
        "sampling": SAMPLINGS[choices.sampling],
        "neighbours": adjacency_text(training, choices.neighbours),
        "unit": f"one {unit}" if choices.sentences == 1 else group,
        "trainings": f"{choices.trainings:,}",
        "delta": f"{choices.delta:g}",
        "seed": "known to the attacker" if choices.seed_known else "secret",
        "floating": "exact real numbers",
    }
    if training.messages:
        texts["sampling"] = "every message, no amplification by subsampling"
    if choices.whole_client:
        texts["unit"] = "one client, with all its sentences"
    return texts[assumption].format(unit=unit)


def adjacency_text(training: Training, name: str) -> str:
    """Return the label of an adjacency, a key of ``NEIGHBOURS``, with ``{unit}`` for the protected unit."""
    return BY_ADDITION if training.bounds_by_addition and name == "add-or-remove" else NEIGHBOURS[name]


def alternatives(training: Training) -> dict[str, tuple[Choices, ...]]:
    """Return the choices of each assumption, the guarantee's choice first, all others as in the guarantee."""
    base, clients = training.promised, training.unit == "client"
    micro_batch = training.batch_size > 1 and base.sampling == "poisson" and not clients
    sizes = sorted({2, 5, 10, training.longest_document or 2} - {1})
    others: dict[str, list[Choices]] = {
        "data": [replace(base, pooled=True)] * training.several
        + [replace(base, printed_examples=True)] * (training.printed_examples is not None),
        "batch": [replace(base, micro_batch=True)] * micro_batch,
        "accountant": [replace(base, accountant=name) for name in reversed(ACCOUNTANTS) if name != base.accountant],
        "sampling": [choices for choices in _samplings(training) if choices.sampling != base.sampling],
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
    """Return the possible adjacencies.

    If clients send messages, the senders are known, so add-or-remove does not apply. Nor does it where one more
    sentence moves others, except as an upper bound (:attr:`Training.bounds_by_addition`).
    """
    fixed = training.messages or (training.has_zero_out_adjacency and not training.bounds_by_addition)
    return tuple(name for name in NEIGHBOURS if not (fixed and name == "add-or-remove"))


def samplings(training: Training) -> tuple[str, ...]:
    """Return the possible samplings.

    A training with Poisson sampling did not shuffle its batches, but ε without amplification by subsampling exists for
    it too.
    """
    if training.messages:
        return ("none",)
    return ("none", "as-poisson") if training.shuffled else ("poisson", "none")


def _samplings(training: Training) -> list[Choices]:
    """Return the choices of sampling.

    Without amplification, zero-out adjacency gets a row too: add-or-remove adjacency changes two batches.
    """
    base = training.promised
    choices = [replace(base, sampling=name) for name in samplings(training)]
    if base.sampling == "poisson" and base.neighbours != "zero-out" and training.unit == "sentence":
        choices.append(replace(base, sampling="none", neighbours="zero-out"))
    return choices


def rows(training: Training) -> tuple[Row, ...]:
    """Return one row for each choice of each assumption, with ε if only this choice differs from the guarantee."""
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
        for name, options in alternatives(training).items()
        for choices in options
    )


def _row_text(training: Training, name: str, choices: Choices) -> str:
    text = choice_text(training, name, choices)
    if name == "sampling" and choices.neighbours != training.promised.neighbours:
        text = f"{text.removesuffix(' by subsampling')}, {choice_text(training, 'neighbours', choices)}"
    return text


def waterfall(training: Training, start: Choices, end: Choices) -> tuple[Step, ...]:
    """Return the steps from the ε of ``start`` to that of ``end``.

    Each step changes one assumption, in the order of ``TITLES``. Assumptions that are equal in both are left out. The
    first step is the start, without an assumption.
    """
    now, steps = start, [Step(assumption="", choice="", epsilon=epsilon(training, start))]
    for name, fields in FIELDS.items():
        after = replace(now, **{field: getattr(end, field) for field in fields})
        if after != now:
            now = after
            steps.append(
                Step(
                    assumption=name,
                    choice=choice_text(training, name, now),
                    epsilon=epsilon(training, now),
                    at_least=at_least(training, now),
                )
            )
    return tuple(steps)


AS_PRINTED = Choices(accountant="rdp-classic", sampling="as-poisson", micro_batch=True, printed_examples=True)
"""The choices that reproduce the ε printed by the code of dp-fl-ner."""


def printed_row(sigma: float) -> Training:
    """Return the training of a row of Table 2 of *Differentially Private Sequence Tagging in a Federated Framework*."""
    return Training(
        examples=14_041, batch_size=32, epochs=10, noise_multiplier=sigma, shuffled=True, printed_examples=14_987
    )
