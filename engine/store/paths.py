"""What the files of a run are called among those that runs share, and where its keys lie, which never travel."""

from pathlib import Path

from engine.settings import Settings

MODELS = "models"


def checkpoint_name(run_id: str) -> str:
    """The state that an interrupted run goes on from."""
    return f"checkpoints/{run_id}.npz"


def model_name(run_id: str, platform: int = 0) -> str:
    """The tagger of a run that is done, or that of one of its platforms, counted from 0."""
    return f"{MODELS}/{run_id}{f'-{platform + 1}' if platform else ''}.npz"


def run_of_model(name: str) -> str:
    """The run that a tagger of this name is from."""
    return Path(name).stem.partition("-")[0]


def key_path(settings: Settings, run_id: str) -> Path:
    """The keys of a run with ``noise_source="system"``, on the one machine that computes it."""
    return settings.home / "checkpoints" / f"{run_id}.key"
