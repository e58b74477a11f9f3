"""The glossary: short, sorted entries with sources, and one for each Greek letter in a text."""

import ast
import re

import pytest

from engine.settings import REPOSITORY
from pages.shared import glossary, tables

ENTRIES = glossary.entries()
EXPECTED_TERMS = """
    ε, δ, σ, accountant, alpha, amplification, batch, BiLSTM, BIO2, BIOES, canary, client, composition, CRF, DP-FedAvg,
    DP-SGD, entity, epoch, F1, FedSGD, MiniLM, PLD, RDP, TDDL, participant, post-processing, precision, recall, relaxed,
    round, seed, sensitivity, strict, token, clip norm, Poisson sampling, neighbours, add or remove one, adjacency,
    unit of privacy, federated averaging, secure aggregation, local DP, global DP, noise multiplier, entity-level F1,
    signal-to-noise, noise check, macro F1, micro F1, language model, word vectors, recommended settings, silo,
    standard deviation, interval, membership inference, group privacy, Laplace mechanism, Gaussian mechanism,
    randomised response, linkage attack, gradient inversion, sentence level, person level, client level,
    federated learning, honest-but-curious server, shadow model, TPR, FPR, test set, validation set, Pareto frontier
"""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.anchor)
def test_entries_are_short_and_have_a_source(entry):
    assert 5 <= len(entry.text.split()) <= glossary.MOST_WORDS
    assert re.search(r"\b(19|20)\d\d\b|docs/|GDPR|ISO", entry.source)
    assert entry.text[-1] in ".:"


def test_sources_in_this_repository_exist():
    for entry in ENTRIES:
        for file, heading in re.findall(r"(docs/\w+\.md), ([^;]+)", entry.source):
            assert re.search(rf"(?m)^#+ {re.escape(heading)}", (REPOSITORY / file).read_text()), entry.term


def test_entries_are_in_alphabetical_order_and_forms_are_unique():
    order = [entry.term.casefold() for entry in ENTRIES]
    assert order == sorted(order)
    forms = [form for entry in ENTRIES for form in entry.forms]
    assert sorted(set(forms)) == sorted(forms)
    assert len({entry.anchor for entry in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("term", " ".join(EXPECTED_TERMS.split()).split(", "))
def test_expected_terms_have_an_entry(term):
    assert glossary.of(term)


def test_every_greek_letter_has_an_entry():
    """Check every Greek letter in a string of the pages or the engine."""
    files = [REPOSITORY / "app.py", *(REPOSITORY / "pages").rglob("*.py"), *(REPOSITORY / "engine").rglob("*.py")]
    letters = set()
    for file in files:
        tree = ast.parse(file.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # users do not see them
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                letters |= set(re.findall("[α-ωΑ-Ω]", node.value))
    assert {"ε", "δ", "σ", "α"} <= letters
    assert not {letter for letter in letters if not glossary.of(letter)}


@pytest.mark.parametrize(
    "text", ["## word\nSaid.\n\n## other\nSaid.\n\nSource: A 2020\n", "## word\n\nSource: A 2020\n"]
)
def test_parse_refuses_an_entry_that_lacks_a_part(text):
    with pytest.raises(ValueError, match="word"):
        glossary.parse(text)


def test_parse_reads_all_parts_of_an_entry():
    (entry,) = glossary.parse("## noise (σ)\nSome\n*words*.\n\nAlso: σ, din\nSource: A 2020\n")
    assert (entry.term, entry.text, entry.forms, entry.source) == (
        "noise (σ)",
        "Some words.",
        ("noise", "σ", "din"),
        "A 2020",
    )
    assert entry.anchor == "noise-σ"
    assert entry.holds("DIN some")
    assert not entry.holds("some silence")


def test_table_headings_have_help_from_the_glossary_unless_set():
    columns = tables.explained(["ε", "F1", "clients", "run", "own"], {"F1": tables.number(format="%.3f"), "own": "σ"})
    assert columns["ε"]["help"] == glossary.of("ε").text
    assert columns["F1"]["help"] == glossary.of("F1").text
    assert columns["F1"]["type_config"]["format"] == "%.3f"
    assert columns["clients"]["help"] == glossary.of("client").text
    assert "run" not in columns
    assert columns["own"] == "σ"
    assert tables.explained(["± sd"], {"± sd": tables.number(help="mine")})["± sd"]["help"] == "mine"


def test_page_shows_all_entries_and_filters_them(open_page):
    test = open_page("glossary")
    texts = [each.value for each in test.markdown]
    assert len([text for text in texts if text.startswith("##### ")]) == len(ENTRIES)
    test.text_input[0].set_value("rényi DIVERGENCE").run()
    assert not test.exception
    headings = [each.value for each in test.markdown if each.value.startswith("##### ")]
    assert "##### RDP" in headings
    assert "##### dropout" not in headings
    test.text_input[0].set_value("<b>nothing_like_it").run()
    assert not [each for each in test.markdown if each.value.startswith("##### ")]
    assert "\\<b\\>nothing\\_like\\_it" in test.caption[1].value
