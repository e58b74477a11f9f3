"""Every name of the engine has a title, and titles have no raw names."""

import re

import pytest

from engine.config import FLAT, PARAMETERS, SCHEMES, SimulationConfig
from engine.config.value_types import Choice
from engine.corpus import catalogue
from engine.experiments import recommended_settings
from pages.shared import titles


def test_every_name_of_the_engine_has_a_title():
    for name, parameter in PARAMETERS.items():
        if isinstance(parameter.values, Choice):
            assert set(parameter.titles) - {None} == set(parameter.values.names), name
            assert not parameter.labels or parameter.labels.keys() == parameter.titles.keys(), name
            assert (None in parameter.titles) == parameter.values.optional, name
    assert set(PARAMETERS["scheme"].titles) == set(SCHEMES)


def test_corpora_have_their_catalogue_titles(settings):
    for info in catalogue(settings):
        assert titles.corpus(info.name) == info.title
    assert titles.corpus("my-case-notes") == "case-notes"
    assert titles.corpus("/somewhere/letters.conll") == "letters.conll"


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"corpus": "conll2003"}, "BiLSTM-TDDL, σ = 1 · CoNLL-2003 English news"),
        (
            {"tagger": "bilstm-crf", "noise_multiplier": 0, "clients": 5, "epochs": 1},
            "BiLSTM-CRF, σ = 0 · Letters and notes (synthetic) · 1 epoch · 5 clients",
        ),
        (
            {"noise_multiplier": 0, "clip_norm": 1.5},
            "BiLSTM-TDDL, σ = 0 · Letters and notes (synthetic) · clip norm 1.5",
        ),
        ({"loss": "sum", "seed": 3}, "BiLSTM-TDDL, σ = 1 · Letters and notes (synthetic) · loss summed over tokens"),
        (
            {"corpus": "ade + wikigold", "tagger": "cnn-crf", "noise_multiplier": 0, "scheme": "bio2,bioes"},
            "CNN-CRF, σ = 0 · ADE Corpus V2 case reports + Wikigold · tag scheme BIO2, BIOES · 2 clients",
        ),
    ],
)
def test_setting_title_has_the_non_default_fields(fields, title):
    assert titles.setting(SimulationConfig.from_flat(fields)) == title


def test_title_of_recommended_settings_has_no_raw_name():
    title_text = titles.setting(recommended_settings.with_minilm("conll2003", 14_041, 3.0))
    assert (
        "Linear, CRF, σ = 1.48 · CoNLL-2003 English news · Public NER tagger · context window 2 · constrained decoding"
        in title_text
    )
    assert not re.search(r"conll2003|linear-crf|True|False|_|\bnames\b", title_text)


def test_different_settings_have_different_titles():
    changed = {
        "data_fraction": 0.5, "embeddings": "en_core_web_lg", "features": "shapes", "hidden_size": 7, "batch_size": 8,
        "learning_rate": 0.5, "epochs": 2.0, "averaging": 0.5, "delta": 1e-6, "sampling": "shuffle", "loss": "sum",
        "clipping": "per-layer", "noise_source": "system", "clients": 2, "rounds": 2, "schedule": "incremental",
        "optimiser": "adam", "well_formed": True, "scheme": "bioes", "clip_norm": 0.5,
    }  # fmt: skip
    different = {titles.setting(SimulationConfig.from_flat({name: value})) for name, value in changed.items()}
    assert len(different) == len(changed)
    inputs = {"tagger": "linear-crf", "features": "layer-names", "window": 1}
    with_weights = titles.setting(SimulationConfig.from_flat(inputs | {"pretrained": True}))
    assert "weights pretrained on Wikigold" in with_weights
    assert with_weights != titles.setting(SimulationConfig.from_flat(inputs))
    assert all(titles.heading(name) for name in FLAT)
