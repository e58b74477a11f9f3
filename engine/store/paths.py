"""Names of a run's files in the artifact store, and the local path of its keys, which never leave the machine."""

from pathlib import Path

from engine.settings import Settings

MODELS = "models"


def checkpoint_name(run_id: str) -> str:
    """Return the name of the checkpoint from which an interrupted run resumes."""
    return f"checkpoints/{run_id}.npz"


def model_name(run_id: str, platform: int = 0) -> str:
    """Return the name of a finished run's tagger, or of the tagger of one of its clients, counted from 0."""
    return f"{MODELS}/{run_id}{f'-{platform + 1}' if platform else ''}.npz"


def run_of_model(name: str) -> str:
    """Return the identity of the run of a tagger with this name."""
    return Path(name).stem.partition("-")[0]


def key_path(settings: Settings, run_id: str) -> Path:
    """Return the path of a run's keys (``noise_source="system"``), on the machine that computes it."""
    return settings.home / "checkpoints" / f"{run_id}.key"
