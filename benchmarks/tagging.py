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


def asked(app: Application) -> tuple[float, float]:
    """Seconds for the first text of a fresh process, and for 500 words after it."""
    wanted = [offer.run.run_id for offer in app.tagging.available_models() if offer.epsilon]
    every = "\n\n".join(example.text for example in examples().values()).split(" ")
    start = time.perf_counter()
    app.tagging.tag("Rosa met Ann in Ulm.", wanted)
    first, times = time.perf_counter() - start, []
    for turn in range(TURNS):
        start = time.perf_counter()
        app.tagging.tag(" ".join(every[turn : turn + WORDS]), wanted)
        times.append(time.perf_counter() - start)
    app.close()
    return first, statistics.median(times)


def rates(app: Application) -> tuple[float, float]:
    """Sentences a second of one linear tagger, once features are there, and with them."""
    model = app.models.load(next(offer.run.run_id for offer in app.tagging.available_models() if offer.epsilon == "1"))
    tagger = TextTagger(app.settings)
    some = [sentence for example in examples().values() for sentence in split(example.text).sentences]
    tagger.encode(some, model)
    start = time.perf_counter()
    few = tagger.encode(some * FEW, model)
    read_off(model, few, app.settings.backend)
    whole = len(some) * FEW / (time.perf_counter() - start)
    many, times = tagger.encode(some * COPIES, model), []
    for _ in range(TURNS):
        start = time.perf_counter()
        read_off(model, many, app.settings.backend)
        times.append(time.perf_counter() - start)
    return len(many.split) / statistics.median(times), whole


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    app = Application.from_environment()
    first, warm = asked(app)
    ready, whole = rates(app)
    values = {
        "start_seconds": round(first, 1),
        "seconds_500_words": round(warm, 2),
        "sentences_a_second": round(ready),
        "sentences_a_second_with_features": round(whole),
    }
    finish("tagging", values, tagging_table(values), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
