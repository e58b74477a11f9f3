"""The published audits of CoNLL-2003: ``python -m benchmarks.audits [--table]``.

The paper settings and the recommended settings at ε = 1, 3, 8 and without noise: both kinds of canaries with five
seeds, and membership inference with 32 shadow models. Takes hours. Audits that the current engine has published are not
repeated, so you can interrupt it. ``--table`` prints the published audits.
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
from engine.privacy.audit.applicability import CANARIES, REFERENCES
from engine.records import SHOWN, Audit, CanaryAudit
from engine.reports.audits import audit_command
from engine.reports.numbers import epsilon_text
from engine.service import Application
from engine.store.audits import write

CORPUS = "conll2003"
SEEDS = 5
SENTENCES = 14_041
"""That it has to train on."""
SETTINGS = {"paper's setting": 0, "good practice": len(recommended_settings.RUNGS) - 1}
"""Steps of :mod:`engine.experiments.recommended_settings` by title."""


def wanted(rung: int, epsilon: float | None) -> Iterator[SimulationConfig]:
    """Yield the configuration of a setting with each seed."""
    config = recommended_settings.recipe_step(rung, CORPUS, SENTENCES, epsilon)
    yield from (replace(config, seed=seed) for seed in range(SEEDS))


def main() -> None:
    """Measure the missing audits, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="print what is published, measure nothing")
    options = parser.parse_args()
    app = Application.from_environment()
    epsilons = (*recommended_settings.EPSILONS, None)
    if options.table:
        sys.stdout.write(table(app) + "\n")
        return
    known = {audit.config: audit for audit in app.audits.all().values()}
    # One seed of everything before the next seed of anything.
    every = [list(wanted(rung, epsilon)) for epsilon in epsilons for rung in SETTINGS.values()]
    for config in (seeds[number] for number in range(SEEDS) for seeds in every):
        found = known.get(config)
        if found and found.engine_version == engine_version(config):
            continue
        references = REFERENCES if config.seed == 0 else 0
        command = audit_command(config, CANARIES, references)
        audit = audits.audit(config, app.settings, CANARIES, references, command=command)
        write(audit, ArtifactStore(str(app.settings.published), app.settings.published))
        sys.stderr.write(f"{audit.run_id} {config.tagger.name} seed {config.seed}\n")


def table(app: Application) -> str:
    """Return a table of claimed ε, lower bounds and TPR of each setting."""
    by_config = {audit.config: audit for audit in app.audits.all().values()}
    rows = []
    for title, rung in SETTINGS.items():
        for epsilon in (*recommended_settings.EPSILONS, None):
            found = [by_config[config] for config in wanted(rung, epsilon) if config in by_config]
            if found:
                rows.append((title, *_cells(found)))
    caught = [f"TPR at {100 * rate:g} % FPR" for rate in SHOWN]
    measured = ("setting", "ε claimed", "black box, mean bound", "white box, mean bound", "seeds")
    return markdown((*measured, *caught, "area", "ε of half the data"), rows)


def _cells(found: Sequence[Audit]) -> tuple[str, ...]:
    white, black = [each.white for each in found if each.white], [each.black for each in found if each.black]
    inferred = next((each.membership for each in found if each.membership), None)
    caught: tuple[str, ...] = ("",) * (len(SHOWN) + 2)
    if inferred:
        curve = inferred.strongest
        shares = (f"{100 * mean:.2f} % ({100 * low:.2f} to {100 * high:.2f})" for mean, low, high in curve.shown)
        caught = (*shares, f"{curve.area:.3f} ({curve.attack})", epsilon_text(inferred.claimed))
    return (epsilon_text(white[0].claimed), _bounds(black), _bounds(white), f"{len(found)}", *caught)


def _bounds(found: Sequence[CanaryAudit]) -> str:
    bounds = [each.best for each in found]
    above = sum(each.contradicted for each in found)
    spread = f" ± {statistics.stdev(bounds):.2f}" if len(bounds) > 1 else ""
    return f"{math.fsum(bounds) / len(bounds):.2f}{spread}" + (f", {above} above the claim" if above else "")


if __name__ == "__main__":
    main()
