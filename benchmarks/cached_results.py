"""Makes ``cached_results/``: ``python -m benchmarks.cached_results``, or with options a part of them.

The paper's training settings (dp-fl-ner, footnotes 2 and 4: the defaults of a configuration), seed 0, one run for each
tagger and noise multiplier. What is published already is left alone; an interrupted run goes on where it was.
"""

import argparse
import itertools
import os
import sys
import time

from engine.config import TAGGERS, PrivacyConfig, SimulationConfig, TaggerConfig
from engine.records import RunState
from engine.runs import Runs

CORPORA = ("synthetic", "conll2003")
NOISE_MULTIPLIERS = (0.0, 0.5, 1.0, 2.0, 5.0)


def main() -> int:
    """Run and publish; the value is the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append", help=f"default: {', '.join(CORPORA)}")
    parser.add_argument("--tagger", action="append", choices=TAGGERS, help="default: all")
    parser.add_argument("--noise-multiplier", action="append", type=float, help="default: 0, 0.5, 1, 2 and 5")
    chosen = parser.parse_args()
    runs = Runs.from_environment()
    corpora, taggers = chosen.corpus or CORPORA, chosen.tagger or TAGGERS
    for corpus, tagger, sigma in itertools.product(corpora, taggers, chosen.noise_multiplier or NOISE_MULTIPLIERS):
        config = SimulationConfig(
            corpus=corpus, tagger=TaggerConfig(name=tagger), privacy=PrivacyConfig(noise_multiplier=sigma)
        )
        status = runs.submit(config, owner_pid=os.getpid())
        while not status.state.final:
            time.sleep(0.5)
            status = runs.status(status.run_id)
        if status.state != RunState.DONE:
            sys.stderr.write(f"{corpus} {tagger} σ={sigma:g}: {status.state}: {status.error}\n")
            return 1
        run = runs.get(status.run_id)
        path = runs.publish(run.run_id)
        last = run.records[-1]
        if last.test and run.provenance:
            sys.stdout.write(
                f"{path.name}: ε {last.privacy.epsilon:.4g}, test F1 {last.test.f1:.4f}, "
                f"{run.provenance.wall_seconds:.0f} s\n"
            )
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
