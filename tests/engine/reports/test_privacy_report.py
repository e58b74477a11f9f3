"""The privacy report: its evidence and its text."""

import json
import math
import re
import shutil
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

from engine.config import PARAMETERS
from engine.config.mechanism_registry import ZERO_OUT
from engine.embeddings.contamination import apply_contamination
from engine.errors import InvalidConfig, RunNotFound
from engine.privacy import accounting, pld
from engine.privacy.accounting import epsilon
from engine.privacy.group_privacy import group_epsilon
from engine.records import RATES, AttackCurve, Audit, CanaryAudit, MembershipAudit, PrivacySpent, RunKind, RunState
from engine.reports.audits import power_of, power_text
from engine.reports.document import html_file
from engine.reports.document.model import Code, Facts, Paragraph, Points, Table
from engine.reports.noise_check import check_rows
from engine.reports.numbers import epsilon_text, right_text
from engine.reports.privacy_report import assumptions, builder, guarantee, nist_sp800_226, summary, usage, verification
from engine.reports.privacy_report.assumptions import Held
from engine.reports.privacy_report.evidence import Evidence, Others, Verdict
from engine.reports.scores import f1_text
from engine.service import Application, report_evidence
from engine.store import published, published_index
from tests.engine.reports.runs_published import (
    FEDERATED,
    OTHER_SPLIT,
    PLAIN,
    PLATFORMS,
    PRIVATE,
    SILOS,
    SYNTHETIC,
    WHOLE,
    paths,
)
from tests.engine.reports.schema import violations

RUN_IDS = (PRIVATE, PLAIN, FEDERATED, PLATFORMS, SYNTHETIC, WHOLE)
WRITTEN = "2026-11-23T05:00+00:00"


@lru_cache
def stored(run_id):
    (path,) = paths(run_id)
    return published.from_dict(json.loads(path.read_text()))


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """Return a folder of the published runs that are reported, and its index."""
    folder = tmp_path_factory.mktemp("reported")
    for path in paths(*RUN_IDS, SILOS):
        shutil.copy(path, folder)
    index = tmp_path_factory.mktemp("home") / published_index.NAME
    published.read_all(folder, index)
    return folder, index


@pytest.fixture
def app(settings, reported):
    folder, index = reported
    settings.home.mkdir()
    shutil.copy(index, settings.home)
    opened = Application(replace(settings, published=folder))
    yield opened
    opened.close()


@pytest.fixture
def evidence_of(app):
    return lambda run_id, **more: report_evidence.evidence(app, run_id, written=WRITTEN, **more)


def failed(evidence: Evidence) -> Evidence:
    """Return the evidence with a failed noise check."""
    last = evidence.last
    check = replace(last.noise_check, faults=("The noise is 0.66 of what was planned.",))
    records = (*evidence.run.records[:-1], replace(last, noise_check=check))
    return replace(evidence, run=replace(evidence.run, records=records), persons={}, statement=None)


def with_privacy(evidence: Evidence, privacy: PrivacySpent) -> Evidence:
    """Return the evidence with another ε in its last record."""
    records = (*evidence.run.records[:-1], replace(evidence.last, privacy=privacy))
    return replace(evidence, run=replace(evidence.run, records=records))


def composition(evidence: Evidence) -> assumptions.Assumption:
    """Return the row on the computation of ε."""
    return next(row for row in assumptions.rows(evidence) if row.name == assumptions.COMPOSITION)


def released(evidence: Evidence) -> Evidence:
    """Return the evidence with keys from the operating system."""
    privacy = replace(evidence.run.config.privacy, noise_source="system")
    return replace(evidence, run=replace(evidence.run, config=replace(evidence.run.config, privacy=privacy)))


def text_of(document) -> str:
    parts = [document.alarm, document.title, document.subtitle]
    for section in document.sections:
        parts.append(section.title)
        for block in section.blocks:
            if isinstance(block, Paragraph | Code):
                parts.append(block.text)
            elif isinstance(block, Points):
                parts += block.items
            else:
                parts += [cell for row in block.rows for cell in row]
    return "\n".join(parts)


def _blocks(document, title):
    return next(section.blocks for section in document.sections if section.title == title)


def table(document, title):
    return next(b for s in document.sections for b in s.blocks if isinstance(b, Table | Facts) and b.title == title)


@pytest.mark.parametrize(("declared", "held"), [(False, Held.NOT), (True, Held.CLAIMED)])
def test_entity_types_of_own_corpora_are_claimed_only_if_declared(evidence_of, declared, held):
    evidence = released(evidence_of(PRIVATE))
    assert assumptions.DECLARED not in {row.name for row in assumptions.rows(evidence)}
    config = replace(evidence.run.config, corpus="my-notes")
    records = [each.with_own_types(declared=declared) for each in evidence.run.records]
    own = replace(evidence, run=replace(evidence.run, config=config, records=records))
    found = {row.name: row for row in assumptions.rows(own)}
    assert found[assumptions.DECLARED].held is held
    assert not any("tag names" in row.why for row in found.values())


class TestEveryRun:
    @pytest.mark.repeats(after=2)
    @pytest.mark.parametrize("run_id", RUN_IDS)
    def test_figures_equal_the_record(self, evidence_of, run_id):
        evidence, last = evidence_of(run_id), stored(run_id).final
        document = builder.of_run(evidence)
        (figures,) = document.figures["runs"]
        assert figures["f1"] == last.test.f1
        assert figures["recall"] == last.test.recall
        assert figures["epsilon"] == (None if math.isinf(last.privacy.epsilon) else last.privacy.epsilon)
        assert f1_text(last.test) in text_of(document)
        by_type = {row[0]: row[1:] for row in table(document, usage.BY_TYPE).rows}
        for name, counts in last.test.strict.items():
            assert by_type[name][0] == f"{counts.gold:,}"
            assert by_type[name][1] == f"{counts.correct:,}"
            assert int(by_type[name][2].split()[0].replace(",", "")) == counts.gold - counts.correct
        if evidence.promises:
            assert f"ε = {epsilon_text(last.privacy.epsilon)}, δ = 1e-5" in text_of(document)
            missed = sum(counts.gold - counts.correct for counts in last.test.strict.values())
            assert re.findall(r"the model misses ([\d,]*\d)", text_of(document)) == [f"{missed:,}"]

    @pytest.mark.parametrize("run_id", RUN_IDS)
    def test_json_matches_the_schema(self, evidence_of, run_id):
        for evidence in (evidence_of(run_id), *([failed(evidence_of(run_id))] if evidence_of(run_id).check else [])):
            assert list(violations(builder.of_run(evidence))) == []

    @pytest.mark.parametrize("run_id", RUN_IDS)
    def test_all_24_questions_are_answered_and_the_label_has_eight_lines(self, evidence_of, run_id):
        evidence = evidence_of(run_id)
        asked = [each.question for each in nist_sp800_226.answers(evidence)]
        assert asked == [each.question for each in nist_sp800_226.answers(failed(evidence_of(PRIVATE)))]
        assert len(set(asked)) == len(asked) == 24
        parts = {each.section for each in nist_sp800_226.answers(evidence)}
        assert {"2.2", "2.3", "2.4", "2.5", "2.6", "3.1", "3.2", "3.3", "3.5", "3.6", "3.7"} <= parts
        assert {"4.1", "4.2", "4.3", "4.4", "4.5"} <= parts
        assert len(summary.label(evidence)) == 8
        assert all(name and text for name, text in summary.label(evidence))
        assert "no legal conclusion" in text_of(builder.of_run(evidence))

    def test_equal_evidence_gives_an_equal_report(self, evidence_of):
        assert builder.of_run(evidence_of(PRIVATE)).checksum == builder.of_run(evidence_of(PRIVATE)).checksum


class TestVerdicts:
    def test_a_seeded_run_is_a_simulation(self, evidence_of):
        evidence = evidence_of(PRIVATE)
        assert evidence.verdict is Verdict.SIMULATED
        text = text_of(builder.of_run(evidence))
        assert "model is not protected" in text
        held = {each.name: each.held for each in assumptions.rows(evidence)}
        assert held[assumptions.HIDDEN_NOISE] is Held.NOT
        assert next(each for name, each in held.items() if "planned size" in name) is Held.CHECKED
        assert not builder.of_run(evidence).alarm

    def test_independent_sampling_is_checked_only_as_far_as_it_was_compared(self, evidence_of):
        evidence = evidence_of(PRIVATE)
        for compared, held, said in ((0, Held.CLAIMED, "not measured"), (7000, Held.CHECKED, "ChaCha20")):
            check = replace(evidence.check, sampling_compared=compared)
            last = replace(evidence.last, noise_check=check)
            changed = replace(evidence, run=replace(evidence.run, records=(*evidence.run.records[:-1], last)))
            (row,) = (each for each in assumptions.rows(changed) if "Poisson sampling" in each.name)
            assert row.held is held
            assert said in row.why

    @pytest.mark.parametrize("run_id", [PRIVATE, SYNTHETIC, WHOLE])
    def test_values_of_the_samples_are_not_in_the_report(self, evidence_of, run_id):
        evidence = evidence_of(run_id)
        check = replace(evidence.check, batch_mean=777.25, batch_std=55.25, sampling_compared=987654)
        last = replace(evidence.last, noise_check=check)
        text = text_of(builder.of_run(replace(evidence, run=replace(evidence.run, records=(last,)))))
        assert not re.search("777|55[.]2|987,654", text)
        assert f"{check.batch_planned:.4g}" in text

    def test_secret_noise_withholds_the_values_of_older_records(self, evidence_of):
        """Older records hold them."""
        seeded = evidence_of(PRIVATE)
        stored_check = replace(seeded.check, noise_std=0.098765, clipped_norm_max=0.0912345, sampling_compared=987654)
        last = replace(seeded.last, noise_check=stored_check)
        evidence = released(replace(seeded, run=replace(seeded.run, records=(*seeded.run.records[:-1], last))))
        text = text_of(builder.of_run(evidence))
        assert not re.search(r"0[.]098765|0[.]0912345|987,654", text)
        assert evidence.passed

    @pytest.mark.parametrize("run_id", RUN_IDS)
    def test_no_answer_says_that_the_weights_are_the_only_release(self, evidence_of, run_id):
        evidence = evidence_of(run_id)
        answers = {each.question: each for each in nist_sp800_226.answers(evidence)}
        single = next(each for question, each in answers.items() if question.startswith("Is there a single release"))
        others = next(each for question, each in answers.items() if question.startswith("Are all results released"))
        assert single.held is others.held is Held.NOT
        assert not single.why.startswith("A single release")
        assert evidence.shown in others.why
        assert "checksum" in others.why
        if evidence.promises:
            assert "2.6" in single.why
            covered = "the shared layers" if evidence.shared_alone else "the trained weights"
            assert f"ε covers {covered}" in single.why

    def test_keys_from_the_system_are_claimed_and_not_checked(self, evidence_of):
        evidence = released(evidence_of(PRIVATE))
        assert evidence.verdict is Verdict.RELEASED
        held = {each.name: each.held for each in assumptions.rows(evidence)}
        assert held[assumptions.HIDDEN_NOISE] is Held.CLAIMED
        first = builder.of_run(evidence).sections[0]
        assert not [block for block in first.blocks if isinstance(block, Paragraph) and block.warning]

    def test_a_command_with_new_keys_is_another_run(self, evidence_of):
        seeded = usage.provenance(evidence_of(PRIVATE)).blocks
        assert [block.title for block in seeded if isinstance(block, Code)] == [usage.RERUN]
        assert Paragraph(usage.NEW_KEYS) not in seeded
        secret = usage.provenance(released(evidence_of(PRIVATE))).blocks
        assert [block.title for block in secret if isinstance(block, Code)] == [usage.NEW_RUN]
        assert Paragraph(usage.NEW_KEYS) in secret
        assert "--noise-source system" in next(block.text for block in secret if isinstance(block, Code))

    def test_a_command_of_an_earlier_engine_repeats_no_result(self, evidence_of):
        evidence = evidence_of(PRIVATE)
        assert Paragraph(usage.OTHER_ENGINE) not in usage.provenance(evidence).blocks
        older = replace(evidence.run, provenance=replace(evidence.made, engine_version="5"), outdated=True)
        assert Paragraph(usage.OTHER_ENGINE) in usage.provenance(replace(evidence, run=older)).blocks

    def test_each_number_of_sentences_says_what_it_counts(self, evidence_of):
        for run_id, shared in ((PRIVATE, False), (PLATFORMS, True)):
            evidence = evidence_of(run_id)
            every = f"{evidence.made.train_sentences:,} training sentences"
            known, unknown = replace(evidence, in_use=12_345), replace(evidence, in_use=None)
            assert known.number_of_sentences == "12,345 training sentences in use"
            assert unknown.number_of_sentences == every + shared * ", with those that several silos have"
            for each in (known, unknown):
                assert each.number_of_sentences in dict(summary.label(each))["Trained on"]
                facts = dict(table(builder.of_run(each), "Model and data").rows)
                assert facts["Training sentences"].startswith(each.number_of_sentences)
        assert f"; {evidence.made.train_sentences:,} with those" in dict(
            table(builder.of_run(known), "Model and data").rows
        ).get("Training sentences", "")

    def test_sentences_in_use_are_those_of_the_plan(self, evidence_of):
        evidence = evidence_of(SYNTHETIC)
        assert evidence.in_use == evidence.made.train_sentences
        assert evidence_of(FEDERATED).in_use is None

    def test_withheld_numbers_of_comparisons_are_not_shown_as_1(self, evidence_of):
        """Records of system noise have 1 in place of these numbers."""
        evidence = released(evidence_of(PRIVATE))
        check = replace(evidence.check, draws_compared=1, sampling_compared=1)
        rows = {name: measured for name, measured, _ in check_rows(check)}
        assert [rows[name] for name in rows if "from the keys" in name] == ["withheld"] * 2

    @pytest.mark.parametrize("looks", [0, 4])
    def test_clipping_of_clients_is_not_checked_with_secret_noise_either(self, evidence_of, looks):
        seeded = evidence_of(WHOLE)
        last = replace(seeded.last, noise_check=replace(seeded.last.noise_check, looks=looks))
        for evidence in (seeded, released(replace(seeded, run=replace(seeded.run, records=(last,))))):
            (row,) = (each for each in assumptions.rows(evidence) if each.name.endswith("by the clip norm"))
            assert row.held is Held.CLAIMED
            assert "exceeded" not in row.why

    def test_clipping_of_sentences_is_checked_for_those_measured(self, evidence_of):
        (row,) = (
            each for each in assumptions.rows(released(evidence_of(PRIVATE))) if each.name.endswith("by the clip norm")
        )
        assert row.held is Held.CHECKED
        assert "The other sentences were not measured" in row.why

    def test_sampling_is_measured_only_if_it_is_random(self, evidence_of):
        evidence = evidence_of(PRIVATE)
        for spread, said in ((3.0, "noise and sampling"), (None, "measured noise over")):
            check = replace(evidence.check, batch_std_planned=spread)
            last = replace(evidence.last, noise_check=check)
            changed = replace(evidence, run=replace(evidence.run, records=(*evidence.run.records[:-1], last)))
            tested = next(each for each in nist_sp800_226.answers(changed) if "implementation" in each.question)
            assert said in tested.why

    def test_without_noise_nothing_is_claimed(self, evidence_of):
        evidence = evidence_of(PLAIN)
        assert evidence.verdict is Verdict.PLAIN
        assert {each.held for each in assumptions.rows(evidence)} == {Held.NOT}
        (checked,) = (each for each in nist_sp800_226.answers(evidence) if each.held is not Held.NOT)
        assert checked.section == "3.2"
        assert "utility" in checked.question
        assert "no noise was added" in text_of(builder.of_run(evidence))

    def test_public_initial_weights_are_named_with_their_source(self, evidence_of):
        evidence = released(evidence_of(PRIVATE))
        tagger = replace(evidence.run.config.tagger, name="linear-crf", window=1, pretrained=True)
        config = replace(evidence.run.config, tagger=tagger, features="layer-names")
        changed = replace(evidence, run=replace(evidence.run, config=config))
        (row,) = (each for each in assumptions.rows(changed) if each.name.startswith("All inputs"))
        assert row.held is Held.CLAIMED
        assert "The initial weights are public. They were trained without noise on Wikigold" in row.why
        assert "initial weights" not in " ".join(each.why for each in assumptions.rows(evidence))
        assert ("initial weights", "weights pretrained on Wikigold") in usage.settings(config)

    def test_overlap_with_the_features_training_data_voids_the_guarantee(self, evidence_of, app):
        evidence = evidence_of(PRIVATE)
        overlap = replace(evidence.overlap, sentences=(10, 0, 0), shared=(2, 0, 0))
        last = replace(evidence.last, privacy=apply_contamination(evidence.privacy, overlap))
        broken = replace(evidence, run=replace(evidence.run, records=(last,)), overlap=overlap, persons={})
        assert broken.verdict is Verdict.BROKEN
        assert {each.held for each in assumptions.rows(broken)} == {Held.NOT}
        assert "2 of 10 training" in text_of(builder.of_run(broken))
        assert builder.of_run(broken).figures["runs"][0]["epsilon"] is None

    def test_a_failed_noise_check_raises_the_alarm_and_voids_every_claim(self, evidence_of):
        evidence = failed(evidence_of(PRIVATE))
        document = builder.of_run(evidence)
        assert document.alarm.startswith("NOT PRIVATE")
        assert "noise added" not in document.alarm, "samples, clipping or settings may differ"
        assert f"{PRIVATE} failed" in document.alarm
        assert "The noise is 0.66 of what was planned." in text_of(document)
        assert "ε = 1," not in text_of(document)
        assert "by privacy loss distributions" not in text_of(document)
        assert f"{evidence.check.noise_std:.5g} on each weight" in text_of(document)
        (figures,) = document.figures["runs"]
        assert figures["epsilon"] is None
        assert figures["noise_check"]["failed"]
        assert {each.held for each in assumptions.rows(evidence)} == {Held.NOT}
        drawn = html_file.render(document)
        assert drawn.count('<p class="alarm') == len(document.sections)

    def test_noise_hidden_by_rounding_is_claimed_but_not_checked(self, evidence_of):
        evidence = evidence_of(PRIVATE)
        last = replace(evidence.last, noise_check=replace(evidence.check, noise_std=None))
        hidden = replace(evidence, run=replace(evidence.run, records=(last,)))
        held = {each.name: each.held for each in assumptions.rows(hidden)}
        assert next(each for name, each in held.items() if "planned size" in name) is Held.CLAIMED
        assert "not possible (rounding" in text_of(builder.of_run(hidden))


class TestEvidence:
    def test_evidence_refuses_unfinished_and_audit_runs(self, evidence_of, app, monkeypatch):
        with pytest.raises(RunNotFound):
            evidence_of("0" * 16)
        run = stored(PRIVATE)
        running = replace(run, records=run.records[:3], status=replace(run.status, state=RunState.RUNNING))
        monkeypatch.setattr(app.queries, "get", lambda identity: running)
        with pytest.raises(InvalidConfig, match=f"{PRIVATE} is running,.* done"):
            evidence_of(PRIVATE)
        monkeypatch.setattr(app.queries, "get", lambda identity: replace(run, kind=RunKind.AUDIT))
        with pytest.raises(InvalidConfig, match="is an audit with canaries"):
            evidence_of(PRIVATE)

    def test_group_privacy_uses_the_accountants_plan(self, evidence_of):
        evidence = evidence_of(PRIVATE)
        plan, steps = evidence.plan
        assert plan.examples == 14_041
        assert epsilon(plan, steps) == pytest.approx(evidence.privacy.epsilon, rel=1e-9)
        assert set(evidence.persons) == set(report_evidence.SIZES)
        assert evidence.persons[5] == group_epsilon([(plan, steps)], 5) > 5 * evidence.privacy.epsilon
        person = dict(summary.label(evidence))["Guarantee for a person in 10 sentences"]
        ten = f"ε = {epsilon_text(evidence.persons[10])}"
        assert person == f"none for this file (its settings with secret noise: {ten})"
        assert dict(summary.label(released(evidence)))["Guarantee for a person in 10 sentences"] == ten

    def test_without_the_corpus_no_plan_of_a_client_is_assumed(self, evidence_of):
        evidence = evidence_of(FEDERATED)
        assert "not on this machine" in evidence.missing
        assert not evidence.persons
        assert "not available" in dict(summary.label(evidence)).values()
        assert evidence.statement is None

    @pytest.mark.parametrize(("run_id", "number"), [(PRIVATE, 14_041), (WHOLE, 3)])
    def test_delta_must_be_smaller_than_one_divided_by_n(self, evidence_of, run_id, number):
        evidence = evidence_of(run_id)
        for delta, held in ((0.99 / number, Held.CHECKED), (1 / number, Held.NOT)):
            last = replace(evidence.last, privacy=replace(evidence.privacy, delta=delta))
            changed = replace(evidence, run=replace(evidence.run, records=(last,)))
            (row,) = (each for each in assumptions.rows(changed) if each.name == assumptions.DELTA)
            assert row.held is held

    def test_delta_is_compared_with_all_sentences_of_all_clients(self, evidence_of):
        """The client with the largest ε has the fewest sentences, and the largest 1/n."""
        evidence = evidence_of(PRIVATE)
        plan, steps = evidence.plan
        small = replace(evidence, plan=(replace(plan, examples=1_000), steps), in_use=14_041)
        last = replace(evidence.last, privacy=replace(evidence.privacy, delta=1e-4))
        (row,) = (
            each
            for each in assumptions.rows(replace(small, run=replace(evidence.run, records=(last,))))
            if each.name == assumptions.DELTA
        )
        assert row.held is Held.NOT

    def test_parameters_are_those_of_the_worst_case_client(self, evidence_of):
        evidence = evidence_of(SILOS)
        stated = "Are all parameters stated, so that a reader can convert ε to other definitions?"
        answer = next(each for each in nist_sp800_226.answers(evidence) if each.question == stated)
        assert answer.held is Held.NOT
        assert "1,024" not in answer.why, "the batch of all silos together"
        plan, steps = evidence_of(PRIVATE).plan
        answer = next(
            each
            for each in nist_sp800_226.answers(replace(evidence, plan=(replace(plan, examples=3385), steps)))
            if each.question == stated
        )
        assert answer.held is Held.CHECKED
        assert f"{steps:,} steps, batch size {plan.batch_size:,}, 3,385 sentences, of the worst-case" in answer.why

    def test_noise_check_of_one_silo_is_not_that_of_the_run(self, evidence_of):
        evidence = evidence_of(SILOS)
        assert evidence.check.steps == 363
        assert "noise checks of all 3 silos passed, 1,089 steps" in dict(summary.label(evidence))["Checks"]
        text = text_of(builder.of_run(evidence))
        assert "Each silo has its own noise check; this is that of ADE Corpus V2" in text
        assert not re.search(
            r"The noise check passed[.] It measured [^.]*363 steps", text.partition("Each silo has")[0]
        )
        assert evidence_of(PLATFORMS).checks == evidence_of(WHOLE).checks == ()

    def test_second_accountant_agrees(self, evidence_of):
        evidence = evidence_of(PRIVATE)
        assert evidence.second.lower < evidence.privacy.epsilon < evidence.second.upper
        assert composition(evidence).held is Held.CHECKED
        text = text_of(builder.of_run(evidence))
        assert epsilon_text(evidence.second.lower) in text
        assert "no independent check" in text
        for wrong in (0.97, 1.03):
            privacy = replace(evidence.privacy, epsilon=wrong * evidence.privacy.epsilon)
            row = composition(with_privacy(evidence, privacy))
            assert row.held is Held.NOT
            assert "DO NOT AGREE" in row.why
        assert composition(replace(evidence, second=None)).held is Held.CLAIMED

    def test_fault_of_dp_accounting_is_found(self, evidence_of, monkeypatch):
        """Its losses are those of a smaller sensitivity, in memory."""
        evidence = evidence_of(PRIVATE)
        plan, steps = evidence.plan
        honest = GaussianPrivacyLoss.__init__

        def faulty(self: GaussianPrivacyLoss, *arguments: Any, **options: Any) -> None:
            honest(self, *arguments, **options | {"sensitivity": 0.8})

        monkeypatch.setattr(GaussianPrivacyLoss, "__init__", faulty)
        for cache in (pld.one_step, accounting._pld_epsilon):
            cache.cache_clear()
        wrong = accounting.privacy_spent(plan, steps)
        for cache in (pld.one_step, accounting._pld_epsilon):
            cache.cache_clear()
        assert wrong.epsilon < 0.9 * evidence.privacy.epsilon
        assert evidence_of(PRIVATE).second == evidence.second
        assert composition(with_privacy(evidence, wrong)).held is Held.NOT

    def test_the_table_of_assumptions_claims_the_epsilon_of_the_run(self, evidence_of):
        evidence = evidence_of(PRIVATE)
        promised = {row.epsilon for row in evidence.ledger if row.claimed}
        assert list(promised) == [pytest.approx(evidence.privacy.epsilon, rel=1e-6)]
        lines = table(builder.of_run(evidence), verification.LEDGER).rows
        assert len(lines) == len(evidence.ledger) > 10
        assert {line[2] for line in lines if line[3] == "yes"} == {"ε = 1"}
        assert "(ε = ∞) applies to this model" in text_of(builder.of_run(evidence))
        assert "(ε = ∞) applies to this model" not in text_of(builder.of_run(released(evidence)))
        assert not evidence_of(PLAIN).ledger
        assert "No such values" in text_of(builder.of_run(evidence_of(PLAIN)))

    def test_other_runs_on_the_corpus_are_counted(self, evidence_of):
        assert evidence_of(PRIVATE).others == Others(private=1, plain=1)
        assert evidence_of(SYNTHETIC).others == Others()

    def test_runs_on_other_splits_of_the_corpus_are_counted(self, evidence_of, app, tmp_path):
        """``ade@0`` and ``ade@1`` are splits of the same sentences."""
        more = shutil.copytree(app.settings.published, tmp_path / "more")
        for path in paths(OTHER_SPLIT):
            shutil.copy(path, more)
        assert stored(OTHER_SPLIT).config.corpus == "ade@1"
        with closing(Application(replace(app.settings, published=more))) as with_more:
            found = report_evidence.evidence(with_more, SILOS, written=WRITTEN)
        assert found.others.plain == evidence_of(SILOS).others.plain + 1

    def test_a_group_has_the_adjacency_of_the_run(self, evidence_of):
        evidence = evidence_of(PRIVATE)
        moved = with_privacy(evidence, replace(evidence.privacy, neighbouring=ZERO_OUT))
        for found, said in ((evidence, "adding or removing all sentences"), (moved, "by empty ones")):
            text = text_of(builder.of_run(found))
            assert said in text
            assert "computed exactly" not in text

    def test_a_user_who_does_not_see_all_runs_does_not_report_their_number(self, evidence_of):
        for others in (Others(), Others(private=2)):
            evidence = replace(evidence_of(SYNTHETIC), others=others, sees_all=False)
            text = text_of(builder.of_run(evidence))
            assert "This installation has no" not in text.replace("has no published search", "")
            assert text.count("cannot see, are not counted") == 4
            assert "none in this installation" not in text
        assert evidence_of(SYNTHETIC).sees_all
        assert "This installation has no other finished run" in text_of(builder.of_run(evidence_of(SYNTHETIC)))

    def test_each_client_has_its_own_row(self, evidence_of):
        rows = table(builder.of_run(evidence_of(PLATFORMS)), usage.BY_CLIENT).rows
        for row, each in zip(rows, stored(PLATFORMS).final.platforms, strict=True):
            assert row[3] == f"{(each.test or each.scores).recall:.3f}"

    def test_client_level_privacy_covers_the_shared_layers_only(self, evidence_of):
        for evidence in (evidence_of(WHOLE), released(evidence_of(WHOLE))):
            assert evidence.promises
            assert re.search("No client's model .*protected", summary.verdict_text(evidence))
            assert "This model guarantees" not in summary.verdict_text(evidence)
            assert re.search(
                r"shared layers; none .*models of the clients\)?$", dict(summary.label(evidence))["Privacy guarantee"]
            )
            against = dict(table(builder.of_run(evidence), guarantee.ATTACKERS).rows)
            assert next(answer for name, answer in against.items() if "model of one client" in name).startswith("no:")
            assert not any("weights" in name for name in against)
            row = next(each for each in assumptions.rows(evidence) if each.name.startswith("Only the shared layers"))
            assert row.held is Held.NOT
            assert "has the trained weights" not in summary.odds_text(evidence)
        assert any(
            "weights" in name for name, _ in table(builder.of_run(evidence_of(PRIVATE)), guarantee.ATTACKERS).rows
        )
        assert not evidence_of(PLATFORMS).shared_alone

    def test_steps_of_a_client_are_not_protected_by_client_level_privacy(self, evidence_of):
        """Noise is added once a round: the weights within a client's training have none."""
        evidence = evidence_of(FEDERATED)
        for mechanism, moment in (("dp-sgd", "step"), ("dp-fedavg", "round")):
            config = evidence.run.config
            config = replace(config, privacy=replace(config.privacy, mechanism=mechanism))
            changed = replace(evidence, run=replace(evidence.run, config=config))
            against = dict(table(builder.of_run(changed), guarantee.ATTACKERS).rows)
            assert f"Recipient of the weights, after any {moment}" in against

    def test_all_rows_of_the_noise_check_are_shown(self, evidence_of):
        text = text_of(builder.of_run(evidence_of(PRIVATE)))
        for row in check_rows(stored(PRIVATE).final.noise_check, samples=False):
            assert all(cell in text for cell in row)

    def test_withheld_values_of_a_release_are_not_stated(self, evidence_of):
        evidence = released(evidence_of(PRIVATE))
        record = evidence.run.final
        kept = record.without_private_values(clients=False)
        evidence = replace(evidence, run=replace(evidence.run, records=(kept,)))
        text, check = text_of(builder.of_run(evidence)), record.noise_check
        for value in (check.noise_std, check.batch_mean, check.batch_std, check.clipped_norm_max):
            assert f"{value:.4g}" not in text.replace(f"{check.noise_planned:.5g}", "").replace(
                f"{check.clip_norm:.5g}", ""
            )
        assert "The noise check passed" in text
        assert "no losses and gradient norms of this run" in text
        assert "shows training losses" not in text


class TestAttacks:
    WHITE = CanaryAudit(
        kind="directions",
        claimed=1.05,
        delta=1e-5,
        canaries=1000,
        made=500,
        right=300,
        bound=0.2,
        bound_of_steps=0.4,
        bound_of_trials=0.3,
        check_failed=False,
    )

    def audited(self, evidence_of, app, **more):
        """Return evidence on a run with a saved audit."""
        found = Audit(
            run_id=PRIVATE,
            config=stored(PRIVATE).config,
            created=WRITTEN,
            machine="a processor",
            command="python -m engine audit --run it",
            engine_version="6",
            **more,
        )
        app.audits.save(found)
        return evidence_of(PRIVATE)

    def test_without_an_audit_the_report_gives_the_command(self, evidence_of):
        assert f"python -m engine audit --run {PRIVATE} " in text_of(builder.of_run(evidence_of(PRIVATE)))
        federated = text_of(builder.of_run(evidence_of(FEDERATED)))
        assert federated.count("not available for this run") == 3
        assert "gives the command" not in federated
        assert dict(summary.label(evidence_of(PRIVATE)))["Checks"].endswith("no attack measured")

    def test_a_measured_bound_appears_on_label_table_and_figures(self, evidence_of, app):
        evidence = self.audited(evidence_of, app, white=self.WHITE)
        text = text_of(builder.of_run(evidence))
        assert re.search(r"at least 0[.]4 \(95.%", dict(summary.label(evidence))["Checks"])
        assert "No measurement contradicts" in text
        assert "300 of 500" in text
        assert builder.of_run(evidence).figures["runs"][0]["attack_bound"] == 0.4

    def test_each_question_quotes_the_figure_of_its_attacker(self, evidence_of, app):
        """Question 3.5 is on what is released, the model; the attacker of 4.3 reads every step."""
        black = replace(self.WHITE, kind="sentences", bound=0.07, bound_of_steps=0.06, bound_of_trials=None)
        evidence = self.audited(evidence_of, app, white=self.WHITE, black=black)
        answers = {(each.section, each.question): each for each in nist_sp800_226.answers(evidence)}
        leaked = next(each for (_, question), each in answers.items() if "leakage" in question)
        tested = next(each for (_, question), each in answers.items() if "implementation" in question)
        assert leaked.held is Held.CLAIMED, "it was measured on another run"
        assert "at least 0.07 " in leaked.why
        assert "0.4 " not in leaked.why
        assert power_text(power_of(black)) in leaked.why
        assert "at least 0.4 " in tested.why
        assert power_text(power_of(self.WHITE)) in tested.why
        assert "white-box attack" in dict(summary.label(evidence))["Checks"]

    def test_bound_of_steps_is_no_measure_of_what_the_model_leaks(self, evidence_of, app):
        evidence = self.audited(evidence_of, app, white=self.WHITE)
        leaked = next(each for each in nist_sp800_226.answers(evidence) if "leakage" in each.question)
        assert leaked.held is Held.NOT
        assert "0.4" not in leaked.why

    def test_a_claim_that_is_not_contradicted_stands_beside_what_could_have_been(self, evidence_of, app):
        evidence = self.audited(evidence_of, app, white=self.WHITE)
        document = builder.of_run(evidence)
        (line,) = next(block.items for block in _blocks(document, "Measured attacks") if isinstance(block, Points))
        assert line.endswith(power_text(power_of(self.WHITE)))
        assert "half of such audits contradict any claim below" in line
        assert re.search("No measurement contradicts.*list above.*could have contradicted", text_of(document))

    def test_a_contradicted_claim_is_an_open_point(self, evidence_of, app):
        evidence = self.audited(
            evidence_of, app, white=self.WHITE, black=replace(self.WHITE, kind="sentences", bound=1.2)
        )
        assert evidence.bound == 0.4, "the maximum of two 95 % bounds is not a 95 % bound"
        assert self.audited(evidence_of, app, black=replace(self.WHITE, kind="sentences", bound=1.2)).bound == 1.2
        assert any("contradicts" in text for text in summary.open_points(evidence))
        answer = next(each for each in nist_sp800_226.answers(evidence) if "leakage" in each.question)
        assert answer.held is Held.NOT
        assert re.search("lower bound exceeds the claimed", text_of(builder.of_run(evidence)))

    def test_membership_inference_alone_gives_no_bound(self, evidence_of, app):
        curve = AttackCurve(attack="lira", area=0.53, caught=tuple(RATES), shown=((0.002, 0.0, 0.01), (0.02, 0.0, 0.1)))
        inferred = MembershipAudit(
            claimed=1.5,
            delta=1e-5,
            models=4,
            references=32,
            sentences=1000,
            curves=(curve,),
            best="lira",
            by_type={},
            by_client={},
            at_risk=(),
        )
        evidence = self.audited(evidence_of, app, membership=inferred)
        assert evidence.bound is None
        assert "membership inference measured" in dict(summary.label(evidence))["Checks"]
        assert "AUC 0.530" in text_of(builder.of_run(evidence))


class TestOdds:
    @pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-3), (3.0, 1e-5), (8.0, 0.01), (0.0, 0.0)])
    @pytest.mark.parametrize("wrong", [0.0, 0.001, 0.01, 0.3, 1.0])
    def test_power_is_the_largest_tpr_of_any_test(self, epsilon, delta, wrong):
        """Compare with the Neyman–Pearson test on the worst-case pair for (ε, δ) (Kairouz, Oh and Viswanath 2015)."""
        high = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
        low = 1 - delta - high
        there, left = 0.0, wrong
        for with_it, without in ((delta, 0.0), (high, low), (low, high), (0.0, delta)):  # the likeliest first
            share = 1.0 if without <= left else left / without
            there, left = there + share * with_it, left - share * without
        assert guarantee._power(epsilon, delta, wrong) == pytest.approx(there, abs=1e-12)

    def test_shares_have_significant_digits_near_0_and_100(self):
        found = [guarantee._share(value).replace("\u00a0", " ") for value in (0.001, 0.0368, 0.5, 0.2689, 0.99996, 1.0)]
        assert found == ["0.1 %", "3.7 %", "50 %", "27 %", "99.996 %", "100 %"]

    def test_limits_are_rounded_to_the_safe_side(self):
        for value in (0.00012, 0.0368, 0.2689, 0.734, 0.99996, 0.5):
            low, high = (float(guarantee._share(value, to)[:-2]) / 100 for to in (math.floor, math.ceil))
            assert low <= value * (1 + 1e-12)
            assert value <= high * (1 + 1e-12)
            assert high - low <= 0.011
        for value in (0.01, 0.1, 1.0, 2.08, 3.0, 7.91, 10.0, 19.9):
            assert float(right_text(value)[:-2]) / 100 >= 1 / (1 + math.exp(-value))
        assert right_text(1.0) == "73.2\u00a0%"

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
    def test_right_text_is_the_bayes_success_rate(self, epsilon):
        assert float(right_text(epsilon).removesuffix("\u00a0%")) == pytest.approx(
            100 * math.exp(epsilon) / (1 + math.exp(epsilon)), abs=1
        )


class TestTwo:
    def test_two_runs_are_shown_side_by_side(self, evidence_of):
        first, second = evidence_of(PRIVATE), evidence_of(PLAIN)
        document = builder.of_two(first, second)
        label = {row[0]: row[1:] for row in table(document, summary.LABEL).rows}
        seeded = "none for this file (its settings with secret noise: ε = 1, δ = 1e-5)"
        assert label["Privacy guarantee"] == (seeded, "none (no noise)")
        assert len(label) == 8
        settings = {row[0] for row in table(document, "Settings").rows}
        changed = {name for name, value in first.run.config.flat().items() if value != second.run.config.flat()[name]}
        assert settings == {PARAMETERS[name].heading for name in changed}
        assert [each["run_id"] for each in document.figures["runs"]] == [PRIVATE, PLAIN]
        assert list(violations(document)) == []

    def test_only_guarantees_of_one_unit_and_delta_are_compared(self, evidence_of):
        first, second = evidence_of(PRIVATE), evidence_of(FEDERATED)
        assert re.search(
            rf"{PRIVATE} gives the stronger guarantee: ε = 1 .* 4\.52\b", text_of(builder.of_two(first, second))
        )
        last = replace(second.last, privacy=replace(second.privacy, delta=1e-6))
        other = replace(second, run=replace(second.run, records=(last,)))
        assert re.search("not comparable.* 1e-5 and 1e-6", text_of(builder.of_two(first, other)))

    def test_a_run_without_guarantee_is_not_compared(self, evidence_of):
        assert f"Run {PLAIN} gives no privacy guarantee" in text_of(
            builder.of_two(evidence_of(PLAIN), evidence_of(PRIVATE))
        )

    def test_a_failed_check_of_either_run_raises_the_alarm(self, evidence_of):
        document = builder.of_two(evidence_of(PLAIN), failed(evidence_of(PRIVATE)))
        assert PRIVATE in document.alarm
        assert f"Runs {PLAIN} and {PRIVATE} give no privacy guarantee" in text_of(document)
