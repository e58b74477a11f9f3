"""How fast any text is tagged: ``python -m benchmarks.tagging [--json] [--save]``.

Seconds for 500 words as the page *Try* asks for them, by all published taggers, in the process that stays warm; and
sentences a second by one linear tagger (ε = 1), from scores to entities with their confidence, once the features are
there and with them (MiniLM twice, spaCy's finder). The sentences are those of the examples.
"""

import argparse
import statistics
import time

from benchmarks.report import finish, tagging_table
from engine.service import Application
from engine.tagging.examples import examples
from engine.tagging.pipeline import TextTagger, read_off
from engine.tagging.tokenization import split

WORDS, TURNS, COPIES, FEW = 500, 9, 60, 6


def asked(runs: Application) -> tuple[float, float]:
    """Seconds for the first text of a fresh process, and for 500 words after it."""
    wanted = [offer.run.run_id for offer in runs.available_models() if offer.epsilon]
    every = "\n\n".join(example.text for example in examples().values()).split(" ")
    start = time.perf_counter()
    runs.tag("Rosa met Ann in Ulm.", wanted)
    first, times = time.perf_counter() - start, []
    for turn in range(TURNS):
        start = time.perf_counter()
        runs.tag(" ".join(every[turn : turn + WORDS]), wanted)
        times.append(time.perf_counter() - start)
    runs.close()
    return first, statistics.median(times)


def rates(runs: Application) -> tuple[float, float]:
    """Sentences a second of one linear tagger, once features are there, and with them."""
    model = runs.model(next(offer.run.run_id for offer in runs.available_models() if offer.epsilon == "1"))
    tagger = TextTagger(runs.settings)
    some = [sentence for example in examples().values() for sentence in split(example.text).sentences]
    tagger.encode(some, model)
    start = time.perf_counter()
    few = tagger.encode(some * FEW, model)
    read_off(model, few, runs.settings.backend)
    whole = len(some) * FEW / (time.perf_counter() - start)
    many, times = tagger.encode(some * COPIES, model), []
    for _ in range(TURNS):
        start = time.perf_counter()
        read_off(model, many, runs.settings.backend)
        times.append(time.perf_counter() - start)
    return len(many.split) / statistics.median(times), whole


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="keep the result")
    options = parser.parse_args()
    runs = Application.from_environment()
    first, warm = asked(runs)
    ready, whole = rates(runs)
    values = {
        "start_seconds": round(first, 1),
        "seconds_500_words": round(warm, 2),
        "sentences_a_second": round(ready),
        "sentences_a_second_with_features": round(whole),
    }
    finish("tagging", values, tagging_table(values), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
