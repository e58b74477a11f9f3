"""The published audits of CoNLL-2003: ``python -m benchmarks.audits [--table]``.

The paper settings and the recommended settings with MiniLM at ε = 1, 3, 8 and without noise: both kinds of canaries
with five seeds, and membership inference with 32 shadow models. Takes hours. Audits that the current engine has
published are not repeated, so you can interrupt it. ``--table`` prints the published audits.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.report import markdown
from engine.artifact_store import ArtifactStore
from engine.config import SimulationConfig, engine_version
from engine.experiments import audits, recommended_settings
from engine.privacy.audit.applicability import REFERENCES
from engine.records import SHOWN, Audit, CanaryAudit
from engine.reports.audits import audit_command
from engine.reports.numbers import epsilon_text
from engine.service import Application
from engine.store.audits import write

CORPUS = "conll2003"
SEEDS = 5
SENTENCES = 14_041
"""Training sentences of CoNLL-2003."""
SETTINGS = {"paper settings": 0, "recommended settings with MiniLM": recommended_settings.WITH_MINILM}
"""Steps of :mod:`engine.experiments.recommended_settings` by title."""


def wanted(step: int, epsilon: float | None) -> Iterator[SimulationConfig]:
    """Yield the configuration of a setting with each seed."""
    config = recommended_settings.recipe_step(step, CORPUS, SENTENCES, epsilon)
    yield from (replace(config, seed=seed) for seed in range(SEEDS))


def main() -> None:
    """Measure the missing audits, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="print the published audits; measure nothing")
    options = parser.parse_args()
    app = Application.from_environment()
    epsilons = (*recommended_settings.EPSILONS, None)
    if options.table:
        sys.stdout.write(table(app) + "\n")
        return
    published = {audit.config: audit for audit in app.audits.all().values()}
    # One seed of everything before the next seed of anything.
    settings = [list(wanted(step, epsilon)) for epsilon in epsilons for step in SETTINGS.values()]
    for config in (seeds[number] for number in range(SEEDS) for seeds in settings):
        audit = published.get(config)
        if audit and audit.engine_version == engine_version(config):
            continue
        references = REFERENCES if config.seed == 0 else 0
        command = audit_command(config, None, references)
        audit = audits.audit(config, app.settings, None, references, command=command)
        write(audit, ArtifactStore(str(app.settings.published), app.settings.published))
        sys.stderr.write(f"{audit.run_id} {config.tagger.name} seed {config.seed}\n")


def table(app: Application) -> str:
    """Return a table of claimed ε, lower bounds and TPR of each setting."""
    by_config = {audit.config: audit for audit in app.audits.all().values()}
    rows = []
    for title, step in SETTINGS.items():
        for epsilon in (*recommended_settings.EPSILONS, None):
            of_setting = [by_config[config] for config in wanted(step, epsilon) if config in by_config]
            if of_setting:
                rows.append((title, *_cells(of_setting)))
    rates = [f"TPR at {100 * rate:g} % FPR" for rate in SHOWN]
    measured = ("setting", "ε claimed", "black-box, mean bound", "white-box, mean bound", "seeds")
    return markdown((*measured, *rates, "AUC", "ε of half the data"), rows)


def _cells(of_seeds: Sequence[Audit]) -> tuple[str, ...]:
    white = [audit.white for audit in of_seeds if audit.white]
    black = [audit.black for audit in of_seeds if audit.black]
    membership = next((audit.membership for audit in of_seeds if audit.membership), None)
    rates: tuple[str, ...] = ("",) * (len(SHOWN) + 2)
    if membership:
        curve = membership.strongest
        shares = (f"{100 * mean:.2f} % ({100 * low:.2f} to {100 * high:.2f})" for mean, low, high in curve.shown)
        rates = (*shares, f"{curve.area:.3f} ({curve.attack})", epsilon_text(membership.claimed))
    return (epsilon_text(white[0].claimed), _bounds(black), _bounds(white), f"{len(of_seeds)}", *rates)


def _bounds(audits_of_seeds: Sequence[CanaryAudit]) -> str:
    bounds = [audit.best for audit in audits_of_seeds]
    above = sum(audit.contradicted for audit in audits_of_seeds)
    spread = f" ± {statistics.stdev(bounds):.2f}" if len(bounds) > 1 else ""
    return f"{math.fsum(bounds) / len(bounds):.2f}{spread}" + (f", {above} above the claim" if above else "")


if __name__ == "__main__":
    main()
