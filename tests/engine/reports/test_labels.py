"""Display names of configuration values."""

import pytest

from engine.records import Trial
from engine.reports.labels import corpus_title, field_text
from engine.reports.tuning import trial_line


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("synthetic", "Letters and notes (synthetic)"),
        ("conll2003", "CoNLL-2003 English news"),
        ("btc", "Broad Twitter Corpus"),
        ("btc@3", "Broad Twitter Corpus, split 3"),
        ("/data/letters", "/data/letters"),
    ],
)
def test_corpus_title(name, title):
    assert corpus_title(name) == title


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("tagger", "linear-crf", "Linear, CRF"),
        ("learning_rate", 0.10, "learning rate 0.1"),
        ("batch_size", 1024, "batch size 1024"),
        ("well_formed", True, "constrained decoding"),
        ("well_formed", False, "unconstrained decoding"),
        ("pretrained", True, "weights pretrained on Wikigold"),
    ],
)
def test_field_text(name, value, text):
    assert field_text(name, value) == text


def test_trial_line_has_no_raw_field_names():
    line = trial_line(
        Trial(
            number=3, chosen={"tagger": "mlp-crf", "clip_norm": 0.05}, noise_multiplier=2.5, f1=0.7, seconds=9.0, seed=3
        )
    )
    assert all(part in line for part in ("MLP, CRF", "clip norm 0.05", "σ 2.5", " 9 s"))
    assert "_" not in line
