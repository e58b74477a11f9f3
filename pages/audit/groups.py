"""Audits of one setting with different seeds belong together. No streamlit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from engine.config import SimulationConfig
from engine.experiments import recommended_settings
from engine.records import Audit, CanaryAudit, MembershipAudit, ServerAudit
from engine.reports.numbers import epsilon_text
from pages.shared import titles

_SENTENCES = 14_041
"""Of CoNLL-2003; recipes differ by it in their noise alone, where batches are no larger than a third of them."""


@dataclass(frozen=True)
class Group:
    """A setting and its audits, by seed. config: with the smallest seed."""

    config: SimulationConfig
    audits: tuple[Audit, ...]

    @property
    def claimed(self) -> float:
        """The ε of the runs with canaries, or of the models that were attacked."""
        server = self.server[0] if self.server else None
        return next((each.claimed for each in (*self.white, *self.black, self.membership, server) if each), 0.0)

    @property
    def white(self) -> list[CanaryAudit]:
        """By who reads every step."""
        return [audit.white for audit in self.audits if audit.white]

    @property
    def black(self) -> list[CanaryAudit]:
        """By who has the tagger."""
        return [audit.black for audit in self.audits if audit.black]

    @property
    def membership(self) -> MembershipAudit | None:
        """Of the first seed that has it."""
        return next((audit.membership for audit in self.audits if audit.membership), None)

    @property
    def server(self) -> tuple[ServerAudit, float] | None:
        """What the server reads in the first seed that has messages, and the run's noise multiplier."""
        return next(
            ((audit.server, audit.config.privacy.noise_multiplier) for audit in self.audits if audit.server), None
        )

    @property
    def contradicted(self) -> list[CanaryAudit]:
        """Those in which more is lost than is claimed."""
        return [found for found in (*self.white, *self.black) if found.contradicted]

    @property
    def title(self) -> str:
        """What was measured, and what it claims."""
        return f"{name_of(self.config)}, ε = {epsilon_text(self.claimed)}"


def groups(audits: Mapping[str, Audit]) -> list[Group]:
    """Settings with their audits, by corpus, recipe and claim."""
    found: dict[SimulationConfig, list[Audit]] = {}
    for audit in audits.values():
        found.setdefault(replace(audit.config, seed=0), []).append(audit)
    each = [Group(replace(config, seed=_first(some)), tuple(sorted(some, key=_seed))) for config, some in found.items()]
    return sorted(each, key=lambda group: (group.config.corpus, name_of(group.config), group.claimed))


def chosen(found: Iterable[Group], run_id: str | None) -> Group | None:
    """The group with this run."""
    return next((group for group in found if any(audit.run_id == run_id for audit in group.audits)), None)


def name_of(config: SimulationConfig) -> str:
    """Of a setting: good practice, the paper's, or its tagger and σ."""
    privacy = {"noise_multiplier", "clip_norm", "seed", "delta"}
    own = {name: value for name, value in config.flat().items() if name not in privacy}
    for title, number in (("The paper's setting", 0), ("Good practice", len(recommended_settings.RUNGS) - 1)):
        for epsilon in (1.0, None):
            like = recommended_settings.recipe_step(number, config.corpus, _SENTENCES, epsilon).flat()
            if own == {name: value for name, value in like.items() if name not in privacy}:
                return title
    return titles.model(config)


def mean(found: Iterable[CanaryAudit]) -> float | None:
    """The mean of the best bounds; None without any."""
    bounds = [each.best for each in found]
    return fmean(bounds) if bounds else None


def _seed(audit: Audit) -> int:
    return audit.config.seed


def _first(audits: list[Audit]) -> int:
    return min(map(_seed, audits))
