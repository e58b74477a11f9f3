"""Audits of one configuration, grouped over seeds. Without Streamlit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from engine.config import SimulationConfig
from engine.experiments import recommended_settings
from engine.records import Audit, CanaryAudit, MembershipAudit, ServerAudit
from engine.reports.audits import joint_bound
from engine.reports.numbers import epsilon_text
from pages.shared import titles

_SENTENCES = 14_041
"""Training sentences of CoNLL-2003.

On another corpus the recommended settings with MiniLM differ in their noise alone, as long as a batch has at most a
third of the sentences.
"""


@dataclass(frozen=True)
class Group:
    """Audits of one configuration with different seeds.

    Attributes:
        config: The configuration with the smallest seed.
        audits: The audits, sorted by seed.
    """

    config: SimulationConfig
    audits: tuple[Audit, ...]

    @property
    def claimed(self) -> float:
        """The ε of the runs with canaries; without any, that of the other attacked models."""
        server = self.server[0] if self.server else None
        return next((audit.claimed for audit in (*self.white, *self.black, self.membership, server) if audit), 0.0)

    @property
    def white(self) -> list[CanaryAudit]:
        """Canary audits by a white-box attacker, who reads every step."""
        return [audit.white for audit in self.audits if audit.white]

    @property
    def black(self) -> list[CanaryAudit]:
        """Canary audits by a black-box attacker, who has the trained model."""
        return [audit.black for audit in self.audits if audit.black]

    @property
    def membership(self) -> MembershipAudit | None:
        """Membership inference of the first seed that has it."""
        return next((audit.membership for audit in self.audits if audit.membership), None)

    @property
    def server(self) -> tuple[ServerAudit, float] | None:
        """Gradient inversion of the first seed that has it, and the run's noise multiplier."""
        return next(
            ((audit.server, audit.config.privacy.noise_multiplier) for audit in self.audits if audit.server), None
        )

    def joint(self, audits: Sequence[CanaryAudit]) -> float | None:
        """Return the joint lower bound of one attacker over the seeds; None where there is none."""
        return joint_bound(self.config, audits)

    def bound(self, audits: Sequence[CanaryAudit]) -> float | None:
        """Return the joint lower bound of one attacker, else the mean of the bounds; None without audits."""
        joint = self.joint(audits)
        return mean(audits) if joint is None else joint

    @property
    def jointly_contradicted(self) -> bool:
        """Whether the joint lower bound of an attacker exceeds the claimed ε."""
        return any((self.joint(audits) or 0.0) > self.claimed for audits in (self.white, self.black))

    @property
    def contradicted(self) -> list[CanaryAudit]:
        """Canary audits whose lower bound exceeds the claimed ε."""
        return [audit for audit in (*self.white, *self.black) if audit.contradicted]

    @property
    def title(self) -> str:
        """Name of the configuration, and its claimed ε."""
        return f"{name_of(self.config)}, ε = {epsilon_text(self.claimed)}"


def groups(audits: Mapping[str, Audit]) -> list[Group]:
    """Return the audits grouped over seeds, sorted by corpus, name and claimed ε."""
    by_config: dict[SimulationConfig, list[Audit]] = {}
    for audit in audits.values():
        by_config.setdefault(replace(audit.config, seed=0), []).append(audit)
    grouped = [
        Group(replace(config, seed=_smallest_seed(same)), tuple(sorted(same, key=_seed)))
        for config, same in by_config.items()
    ]
    return sorted(grouped, key=lambda group: (group.config.corpus, name_of(group.config), group.claimed))


def chosen(grouped: Iterable[Group], run_id: str | None) -> Group | None:
    """Return the group with an audit of this run; None without one."""
    return next((group for group in grouped if any(audit.run_id == run_id for audit in group.audits)), None)


def name_of(config: SimulationConfig) -> str:
    """Return the name of a configuration: paper settings, recommended settings with MiniLM, or its tagger and σ."""
    privacy = {"noise_multiplier", "clip_norm", "seed", "delta"}
    own = {name: value for name, value in config.flat().items() if name not in privacy}
    for title, number in (
        ("Paper settings", 0),
        ("Recommended settings with MiniLM", recommended_settings.WITH_MINILM),
    ):
        for epsilon in (1.0, None):
            step = recommended_settings.recipe_step(number, config.corpus, _SENTENCES, epsilon).flat()
            if own == {name: value for name, value in step.items() if name not in privacy}:
                return title
    return titles.model(config)


def mean(audits: Iterable[CanaryAudit]) -> float | None:
    """Return the mean of the best lower bounds; None without any."""
    bounds = [audit.best for audit in audits]
    return fmean(bounds) if bounds else None


def _seed(audit: Audit) -> int:
    return audit.config.seed


def _smallest_seed(audits: list[Audit]) -> int:
    return min(map(_seed, audits))
