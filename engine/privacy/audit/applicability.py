"""What an audit of a configuration consists of: which attacks are for it, and how much they train."""

from engine.config import SimulationConfig
from engine.errors import InvalidConfig

CANARIES, REFERENCES = 1000, 32
"""Of an audit for which nobody asked for other numbers."""


def refuse_canaries(config: SimulationConfig) -> None:
    """Raises InvalidConfig for what has no canaries: several clients, clipping by layer."""
    if config.federation.clients > 1 or config.privacy.clipping != "joint":
        raise InvalidConfig(
            f"clients={config.federation.clients}, clipping={config.privacy.clipping!r}: canaries are for one client "
            "and joint clipping"
        )


def refuse_inference(config: SimulationConfig) -> None:
    """Raises InvalidConfig for several platforms, whose members nobody infers."""
    if config.platforms:
        raise InvalidConfig(f"platforms={len(config.platforms)}, expected none: each would need references of its own")


def usual(config: SimulationConfig) -> tuple[int, int]:
    """How many canaries and references an audit of this configuration has. Raises InvalidConfig where neither attack is
    for it."""
    refuse_inference(config)
    try:
        refuse_canaries(config)
    except InvalidConfig:
        return 0, REFERENCES
    return CANARIES, REFERENCES


def trainings(canaries: int, references: int) -> float:
    """How many whole trainings it takes: one with each kind of canary, and models on a half of the sentences."""
    return (2.0 if canaries else 0.0) + ((references + 1) / 2 if references else 0.0)
