"""Overlap of corpora with the data that public features were fitted on, and with each other:
``python -m benchmarks.corpus_contamination [FOLDER …]``, where folders are corpora besides those of the catalogue.

Counts shared sentences by number of words (tokens with a letter or a digit), since short sentences coincide by chance.
``LEAST_WORDS`` of :mod:`engine.embeddings.contamination` follows from it. Takes seconds.
"""

import argparse
import sys
from collections import Counter
from itertools import combinations

from engine import corpus
from engine.config.feature_registry import MOST_FITTED
from engine.corpus import Corpus
from engine.embeddings import contamination
from engine.settings import Settings

SPLITS = ("train", "validation", "test")


def with_public(whole: Corpus) -> list[str]:
    """Return the overlap with the data that any features were fitted on, as a line for each split of the corpus."""
    overlap = contamination.of_corpus(whole, [MOST_FITTED.name])[MOST_FITTED.name]
    fitted = {int(number) for part in MOST_FITTED.fitted for number in contamination.fitted_on(part)}
    lines = []
    for split, of, shared, short in zip(SPLITS, overlap.sentences, overlap.shared, overlap.short, strict=True):
        same = [s.tokens for s in getattr(whole, split) if contamination.checksum(s.tokens) in fitted]
        lengths = sorted(
            Counter(min(contamination.words(tokens), contamination.LEAST_WORDS) for tokens in same).items()
        )
        more = {contamination.LEAST_WORDS: " or more"}
        by_words = ", ".join(f"{count} of {length}{more.get(length, '')}" for length, count in lengths)
        lines.append(f"| {whole.name} | {split} | {of:,} | {shared:,} | {short:,} | {by_words or 'none'} |")
    return lines


def texts(whole: Corpus) -> dict[int, tuple[str, ...]]:
    """Return one sentence for each checksum."""
    return {
        checksum: s.tokens
        for split in SPLITS
        for s in getattr(whole, split)
        if (checksum := contamination.checksum(s.tokens)) is not None
    }


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    settings = Settings.from_environment()
    available = [info.name for info in corpus.catalogue(settings) if info.available]
    every = [corpus.resolve(name, settings).load() for name in [*available, *parser.parse_args().folders]]
    out = sys.stdout.write
    out("| corpus | split | sentences | shared | shared, too short to count | by words |\n|---|---|---|---|---|---|\n")
    out("".join(f"{line}\n" for whole in every for line in with_public(whole)))
    out("\nLongest shared sentences of two corpora:\n")
    known = {whole.name: texts(whole) for whole in every}
    for one, other in combinations(known, 2):
        both = known[one].keys() & known[other].keys()
        longest = sorted(
            (known[one][checksum] for checksum in both), key=lambda tokens: (-contamination.words(tokens), tokens)
        )
        if longest:
            longest_three = "; ".join(
                f"{' '.join(tokens)!r} ({contamination.words(tokens)} words)" for tokens in longest[:3]
            )
            out(f"{one}, {other}: {len(both):,}: {longest_three}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
