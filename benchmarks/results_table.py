"""Prints the published runs as the README's table: ``python -m benchmarks.results_table [--write README.md]``."""

import argparse
import sys
from pathlib import Path

from engine.records import Run
from engine.reports import epsilon_text
from engine.runs import Runs
from engine.settings import Settings
from engine.store import published

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def table(runs: list[Run]) -> str:
    """Rows by corpus and noise multiplier."""
    titles = {info.name: info.title for info in Runs.from_environment().corpora()}
    lines = ["| corpus | σ | ε | precision | recall | F1 |", "|---|---|---|---|---|---|"]
    for run in sorted(runs, key=lambda run: (run.config.corpus != "synthetic", run.config.privacy.noise_multiplier)):
        final = run.final
        if final and final.test:
            title = titles.get(run.config.corpus, run.config.corpus)
            lines.append(
                f"| {title} | {run.config.privacy.noise_multiplier:g} | {epsilon_text(final.privacy.epsilon)} "
                f"| {final.test.precision:.3f} | {final.test.recall:.3f} | {final.test.f1:.3f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Print the table, or put it between its marks in a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="file that has the two marks of the table")
    chosen = parser.parse_args()
    runs, _ = published.read_all(Settings.from_environment().published)
    text = table(runs)
    if chosen.write:
        before, _, rest = chosen.write.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        chosen.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    else:
        sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
