"""Labels of assumptions and of their choices. ``{unit}`` is the protected unit: a sentence, or a client."""

TITLES = {
    "data": "Data in use",
    "batch": "Batch size in the formula",
    "accountant": "Accountant",
    "sampling": "Sampling of batches",
    "neighbours": "Adjacency",
    "unit": "Protected unit",
    "trainings": "Trainings on the data",
    "delta": "δ",
    "seed": "Noise seed",
    "floating": "Floating point",
}
"""Assumptions, in the order in which a reported ε is corrected."""
ACCOUNTANTS = {
    "rdp-classic": "Rényi, orders and conversion of early software",
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
BY_ADDITION = "zero out one {unit} (upper bound: ε for add or remove one {unit})"
"""Adjacency of shuffled batches if one more sentence moves others: its ε is that of an addition, which is larger."""
_WHY = {
    "data": "Each client adds noise to its own steps, so a sentence is protected only among the sentences of its "
    "client. Counting more sentences gives a sampling rate that is too low.",
    "batch": "Some libraries clip micro-batches, which are parts of a batch. If the size of a micro-batch, 1, is "
    "entered as the batch size, the accountant assumes that a step samples one {unit}. The step samples many more.",
    "accountant": "All three are upper bounds on the same privacy loss. A tighter bound does not add privacy; it "
    "states the privacy loss more exactly.",
    "sampling": "Random sampling hides which {unit}s are in a step, and lowers ε (amplification by subsampling). With "
    "shuffled batches there is no such secret: every {unit} is in one batch of each epoch. The smaller ε is not proven "
    "for shuffled batches. For some data the true ε is larger: at least the lower bound shown (Chua et al. 2024). "
    "The ε without amplification is larger and proven.",
    "neighbours": "The adjacency says which data sets the attacker must not be able to distinguish. With "
    "random sampling, a replacement is a removal and an addition, so its ε is larger: at most the value shown. With "
    "shuffled batches, an addition changes two batches of an epoch, a replacement only one, so its bound is smaller. "
    "Do not compare ε across adjacencies.",
    "unit": "The guarantee covers one {unit}. It is weaker for a person named in k sentences (group privacy); k times "
    "ε is not a bound at the same δ.",
    "trainings": "Each training on the same data adds to ε (composition). This includes each trial of a hyperparameter "
    "search, whether its result is kept or not. Here all trainings have the same settings, fixed in advance.",
    "delta": "The amount by which a probability may exceed the limit of ε. In the worst case the guarantee fails "
    "completely with this probability. A smaller δ needs a larger ε.",
    "seed": "Anyone who knows the seed can compute the noise and subtract it. Nothing is protected then.",
    "floating": "Noise in floating point is not exactly normal in its last digits (Mironov 2012). No ε here includes "
    "this effect, and we know of no other published ε that does.",
}
_WHY_CLIENT = {
    "neighbours": "The adjacency says which data sets the attacker must not be able to distinguish. A replacement is a "
    "removal and an addition, so its ε is larger: at most the value shown. Do not compare ε across adjacencies.",
    "unit": "The guarantee covers one client. It is weaker for a group of k clients (group privacy); k times ε is not "
    "a bound at the same δ.",
    "data": "A client is protected among all clients, with all its sentences. Their number does not change ε.",
    "sampling": "Random sampling hides which clients take part in a round, and lowers ε as long as the participants "
    "stay secret. If clients add the noise to their messages, the sender is known, so each message counts towards ε.",
}


def why(assumption: str, unit: str) -> str:
    """Return the effect of an assumption on ε, in a few sentences. ``unit`` is "sentence" or "client"."""
    text = _WHY_CLIENT.get(assumption, _WHY[assumption]) if unit == "client" else _WHY[assumption]
    return text.format(unit=unit)
