"""The shell command that reruns a configuration."""

import shlex

from engine.config import DEFAULT_CLIP_NORM, PROPOSED, SimulationConfig


def command_line(config: SimulationConfig, verb: str = "train") -> str:
    """Return the command that reruns a configuration; only tagger, noise multiplier and non-default fields appear."""
    private = config.privacy.private
    usual = SimulationConfig().flat() | {"clip_norm": DEFAULT_CLIP_NORM if private else None}
    if config.assigns_sentences and not config.platforms:  # elsewhere all partitions are the same
        usual |= PROPOSED
    usual |= {"corpus": config.corpus, "clients": len(config.platforms) or 1}  # the first words give both
    always = ("tagger", "noise_multiplier")
    corpora = [word for name in config.platforms for word in ("--platform", name)] or ["--corpus", config.corpus]
    words = ["python", "-m", "engine", verb, *corpora]
    for name, value in config.flat().items():
        if (
            name == "corpus"
            or (name == "clients" and config.platforms)
            or (value == usual[name] and name not in always)
        ):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:  # a flag, off by default
            short = isinstance(value, float) and float(f"{value:g}") == value
            words.append(f"{value:g}" if short else str(value))
    return shlex.join(words)
