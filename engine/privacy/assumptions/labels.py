"""Labels of assumptions and of their choices. ``{unit}`` is the protected unit: a sentence, or a client."""

TITLES = {
    "data": "Whose data is counted",
    "batch": "Batch size in the formula",
    "accountant": "Accountant",
    "sampling": "How batches are drawn",
    "neighbours": "Neighbouring data sets",
    "unit": "Who is protected",
    "trainings": "Trainings on the data",
    "delta": "δ",
    "seed": "Seed of the noise",
    "floating": "Floating point",
}
"""Assumptions, in the order in which a reported ε is corrected."""
ACCOUNTANTS = {
    "rdp-classic": "Rényi, early orders and conversion",
    "rdp": "Rényi, improved conversion",
    "pld": "privacy loss distributions",
}
SAMPLINGS = {
    "poisson": "each {unit} independently (Poisson)",
    "as-poisson": "shuffled, accounted for as Poisson",
    "none": "shuffled batches, no amplification by subsampling",
}
NEIGHBOURS = {
    "add-or-remove": "add or remove one {unit}",
    "zero-out": "zero out one {unit}",
    "replace": "replace one {unit}",
}
_WHY = {
    "data": "Each client adds noise to its own steps, so a sentence hides among those of its client alone. Counting "
    "more sentences than that makes each look rarer than it is.",
    "batch": "Some libraries clip micro-batches. Told a batch of 1, an accountant believes that a step draws one "
    "{unit}, when in truth it draws many times as many.",
    "accountant": "All three are upper bounds on the same loss. A tighter one makes nothing more private; it says more "
    "exactly how private it was.",
    "sampling": "Chance hides who was in a step, and makes ε smaller. Shuffled batches have no such chance: everybody "
    "is in one of them in each epoch. The small figure is not proven of them, and for some data they do cost more: at "
    "least what stands here (Chua et al. 2024). The large one is proven.",
    "neighbours": "What the attacker may not tell apart. An exchange is a removal and an addition, and costs more: at "
    "most what stands here. Figures under different conventions must not be compared.",
    "unit": "The promise is for one {unit}. Whoever has several is promised less, and k times as much is no bound at "
    "the same δ.",
    "trainings": "Each training on the same data loses something, those of a search for the best setting too, whether "
    "their results are kept or not. Here all are alike and fixed beforehand.",
    "delta": "The chance that the promise does not hold at all. A smaller one costs more ε.",
    "seed": "Whoever knows the seed can compute the noise and subtract it. Then nothing is hidden.",
    "floating": "Noise in floating point is not quite normal in its last digits (Mironov 2012). No number is booked "
    "for it here, nor anywhere else that we know.",
}
_OF_CLIENTS = {
    "data": "A client hides among all clients, with all it has: how many sentences these are changes nothing.",
    "sampling": "Chance hides who took part in a round, and makes ε smaller, as long as nobody learns who did. Where "
    "clients add the noise to what they send, it is known who sends, and each message is paid for.",
}


def why(assumption: str, unit: str) -> str:
    """Return the effect of an assumption on ε, in a few sentences. ``unit`` is "sentence" or "client"."""
    text = _OF_CLIENTS.get(assumption, _WHY[assumption]) if unit == "client" else _WHY[assumption]
    return text.format(unit=unit)
