"""Applicability of privacy audits: the attacks that suit a configuration, and their number of trainings."""

from engine.config import SimulationConfig
from engine.errors import InvalidConfig

CANARIES, REFERENCES = 1000, 32
"""Default number of canaries and of shadow (reference) models of an audit."""


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


def usual(config: SimulationConfig) -> tuple[int, int]:
    """Return the default numbers of canaries and shadow models for this configuration.

    Raises InvalidConfig if neither attack is available.
    """
    refuse_inference(config)
    try:
        refuse_canaries(config)
    except InvalidConfig:
        return 0, REFERENCES
    return CANARIES, REFERENCES


def trainings(canaries: int, references: int) -> float:
    """Return the number of whole trainings that an audit needs.

    It trains once with each type of canary, and shadow models on half of the sentences each.
    """
    return (2.0 if canaries else 0.0) + ((references + 1) / 2 if references else 0.0)
