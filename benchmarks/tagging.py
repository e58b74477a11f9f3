"""Time to tag a text: ``python -m benchmarks.tagging [--json] [--save]``.

Measured are the seconds for 500 words by all published taggers in the warm process, as on the page *Tag text*, and the
memory of that process after the longest text, also after taggers with the smaller language model, MiniLM; and the
sentences a second of one linear tagger (ε = 1), from scores to entities with confidence, with and without the time of
the features (MPNet, spaCy's NER tagger). The sentences are those of the examples.
"""

import argparse
import statistics
import time

import psutil

from benchmarks.report import finish, tagging_table
from engine.service import Application
from engine.service.tagging_client import MOST_CHARACTERS
from engine.tagging.examples import examples
from engine.tagging.pipeline import TextTagger, read_off
from engine.tagging.published_taggers import published
from engine.tagging.tokenization import split

WORDS, TURNS, COPIES, FEW = 500, 9, 60, 6
SETTLED_SECONDS = 1.0
"""Seconds after an answer, in which the process returns freed memory."""


def asked(app: Application) -> tuple[float, float, list[float]]:
    """Return the seconds for the first text of a new process, and for 500 words after it; and its memory in MB.

    The memory is measured after the published taggers, and again after those with MiniLM.
    """
    models = [offer.run.run_id for offer in app.tagging.available_models() if offer.epsilon]
    words = "\n\n".join(example.text for example in examples().values()).split(" ")
    start = time.perf_counter()
    app.tagging.tag("Rosa met Ann in Ulm.", models)
    first, times = time.perf_counter() - start, []
    for turn in range(TURNS):
        start = time.perf_counter()
        app.tagging.tag(" ".join(words[turn : turn + WORDS]), models)
        times.append(time.perf_counter() - start)
    smaller = [run.run_id for config in published(with_mpnet=False).values() if (run := app.queries.find(config))]
    memory = []
    for used in (models, smaller):
        app.tagging.tag((" ".join(words) * 9)[:MOST_CHARACTERS], used)
        (process,) = psutil.Process().children()
        time.sleep(SETTLED_SECONDS)
        memory.append(process.memory_info().rss / 1e6)
    app.close()
    return first, statistics.median(times), memory


def rates(app: Application) -> tuple[float, float]:
    """Return the sentences a second of one linear tagger: with cached features, and with their computation."""
    model = app.models.load(next(offer.run.run_id for offer in app.tagging.available_models() if offer.epsilon == "1"))
    tagger = TextTagger(app.settings)
    sentences = [sentence for example in examples().values() for sentence in split(example.text).sentences]
    tagger.encode(sentences, model)
    start = time.perf_counter()
    few = tagger.encode(sentences * FEW, model)
    read_off(model, few, app.settings.backend)
    whole = len(sentences) * FEW / (time.perf_counter() - start)
    many, times = tagger.encode(sentences * COPIES, model), []
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
    first, warm, memory = asked(app)
    ready, whole = rates(app)
    values = {
        "start_seconds": round(first, 1),
        "seconds_500_words": round(warm, 2),
        "megabytes": round(memory[0]),
        "megabytes_both": round(memory[1]),
        "sentences_a_second": round(ready),
        "sentences_a_second_with_features": round(whole),
    }
    finish("tagging", values, tagging_table(values), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
