"""Applicability of privacy audits: the attacks that suit a configuration, and their number of trainings."""

from engine.config import SimulationConfig
from engine.errors import InvalidConfig

CANARIES, REFERENCES = 1000, 32
"""Default number of black-box canaries and of shadow (reference) models of an audit."""
WHITE_BOX_CANARIES = 8000
"""Largest default number of white-box canaries: they cost hardly any time, and their number gives power."""


def refuse_canaries(config: SimulationConfig) -> None:
    """Check that canaries are available. Raises InvalidConfig for several clients or clipping by layer."""
    if config.federation.clients > 1 or config.privacy.clipping != "joint":
        raise InvalidConfig(
            f"clients={config.federation.clients}, clipping={config.privacy.clipping!r}: canaries need one client "
            "and joint clipping"
        )


def refuse_inference(config: SimulationConfig) -> None:
    """Check that membership inference is available. Raises InvalidConfig for several clients (silos)."""
    if config.platforms:
        raise InvalidConfig(f"platforms={len(config.platforms)}, expected none: each would need its own shadow models")


def white_box_canaries(sentences: int, weights: int) -> int:
    """Return the default number of white-box canaries: half as many as training sentences, 1,000 to 8,000.

    More would lower the sampling probability, and with it the ε of the audited training, much below that of the run.

    Args:
        sentences: number of training sentences.
        weights: number of weights; each canary needs one.
    """
    return min(weights, max(CANARIES, min(WHITE_BOX_CANARIES, sentences // 2)))


def usual(config: SimulationConfig) -> tuple[int | None, int]:
    """Return the numbers of canaries and shadow models of a usual audit; None for the default number of canaries.

    Raises InvalidConfig if neither attack is available.
    """
    refuse_inference(config)
    try:
        refuse_canaries(config)
    except InvalidConfig:
        return 0, REFERENCES
    return None, REFERENCES


def trainings(canaries: int | None, references: int) -> float:
    """Return the number of whole trainings that an audit needs.

    It trains once with each type of canary, and shadow models on half of the sentences each.
    """
    return (0.0 if canaries == 0 else 2.0) + ((references + 1) / 2 if references else 0.0)
