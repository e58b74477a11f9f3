"""Baselines on the embedded corpus: ``python -m benchmarks.synthetic_baseline [--json]``.

Two taggers without a neural network, trained on the training set and scored on the test set (strict, entity-level):

- *majority*: each word gets its most frequent tag. An unknown word gets the most frequent tag of the training words
  that occur once, separately for words with and without a capital. It sees no context, and should fail.
- *context*: logistic regression over the word, its shape and its suffix, and word and shape of two words on either
  side, each token separately. It should do much better; otherwise context would not help in this corpus.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from engine.corpus.sentences import Sentence
from engine.corpus.synthetic import corpus
from engine.records import EntityScores
from engine.scoring import score

Tags = list[list[str]]


def majority(train: Sequence[Sentence], test: Sequence[Sentence], *, cased: bool = True) -> Tags:
    """Tag the test sentences with the most frequent tag of each word."""
    known: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for token, tag in zip(sentence.tokens, sentence.tags, strict=True):
            known[token if cased else token.lower()][tag] += 1
    words = {word: tags.most_common(1)[0][0] for word, tags in known.items()}
    unknown: defaultdict[bool, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for token, tag in zip(sentence.tokens, sentence.tags, strict=True):
            if known[token if cased else token.lower()].total() == 1:
                unknown[token[0].isupper()][tag] += 1
    guess = {capital: tags.most_common(1)[0][0] for capital, tags in unknown.items()}
    return [
        [words.get(token if cased else token.lower(), guess.get(token[0].isupper(), "O")) for token in sentence.tokens]
        for sentence in test
    ]


def context(train: Sequence[Sentence], test: Sequence[Sentence]) -> Tags:
    """Tag the test sentences with a linear model over each token and two neighbours on either side."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import SGDClassifier

    vectorizer = DictVectorizer()
    rows = vectorizer.fit_transform([row for sentence in train for row in _features(sentence.tokens)])
    model = SGDClassifier(loss="log_loss", alpha=1e-6, max_iter=12, tol=None, random_state=0)
    rows.indices, rows.indptr = (
        rows.indices.astype("int32"),
        rows.indptr.astype("int32"),
    )  # the index type that the model supports
    model.fit(rows, [tag for sentence in train for tag in sentence.tags])
    unseen = vectorizer.transform([row for sentence in test for row in _features(sentence.tokens)])
    tags = iter(model.predict(unseen))
    return [[str(next(tags)) for _ in sentence.tokens] for sentence in test]


def _features(tokens: Sequence[str]) -> Iterator[dict[str, bool]]:
    for position in range(len(tokens)):
        row = {}
        for offset in range(-2, 3):
            neighbour = position + offset
            token = tokens[neighbour] if 0 <= neighbour < len(tokens) else "<edge>"
            row[f"{offset} word {token.lower()}"] = True
            row[f"{offset} shape {_shape(token)}"] = True
        row[f"end {tokens[position][-3:].lower()}"] = True
        yield row


def _shape(token: str) -> str:
    letters = "".join(
        "X" if sign.isupper() else "x" if sign.isalpha() else "9" if sign.isdigit() else sign for sign in token
    )
    return "".join(sign for i, sign in enumerate(letters) if i == 0 or sign != letters[i - 1])


def measure() -> dict[str, EntityScores]:
    """Return the scores on the test set by baseline."""
    data = corpus()
    gold = [sentence.tags for sentence in data.test]
    return {
        "majority, cased": score(gold, majority(data.train, data.test)),
        "majority, lower case": score(gold, majority(data.train, data.test, cased=False)),
        "context": score(gold, context(data.train, data.test)),
    }


def main() -> None:
    """Print strict micro F1 and the F1 of each type."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    results = {
        name: {
            "F1": round(scores.f1, 4),
            **{kind: round(counts.ratios.f1, 4) for kind, counts in scores.strict.items()},
        }
        for name, scores in measure().items()
    }
    if arguments.json:
        lines = [json.dumps(results)]
    else:
        lines = [
            f"{name:22}" + "  ".join(f"{kind} {value:.3f}" for kind, value in row.items())
            for name, row in results.items()
        ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
