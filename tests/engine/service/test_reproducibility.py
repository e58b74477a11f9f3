"""Comparison of reruns."""

from dataclasses import replace

from engine.records import LayerNoise, PlatformRecord, RunState
from engine.service.reproducibility import Rerun, RerunComparison, compare, repeat_id, summary
from tests.engine.factories import record, scores


def test_repeat_id_differs_from_all_run_ids():
    assert repeat_id("0123456789abcdef") == "r123456789abcdef"


def test_identical_ignores_only_the_time():
    first = record(2)
    assert compare(first, replace(first, seconds=99.0)) == RerunComparison(True, 0.0)
    near = compare(first, replace(first, loss=first.loss * (1 + 1e-15)))
    assert near is not None
    assert not near.identical
    assert all(part in near.text for part in ("equal F1", "differ"))
    worse = compare(first, replace(first, test=scores(2)))
    assert worse is not None
    assert worse.f1_difference < 0
    assert worse.text.startswith("F1 -0.")


def test_texts_and_tolerances_are_not_compared():
    first = record(2)
    check = replace(first.noise_check, layers=(LayerNoise("one", 1.0, 0.1),))
    own = PlatformRecord(name="a", privacy=first.privacy, scores=first.scores, noise_check=check)
    first = replace(first, noise_check=check, platforms=(own,))
    privacy = replace(first.privacy, assumptions=("said otherwise",))
    wider = replace(check, noise_tolerance=0.2, layers=(LayerNoise("one", 1.0, 0.2),))
    again = replace(own, privacy=privacy, noise_check=wider)
    assert compare(first, replace(first, privacy=privacy, noise_check=wider, platforms=(again,))).identical
    for changed in (replace(wider, batch_mean=8.1), replace(wider, layers=(LayerNoise("one", 1.1, 0.2),))):
        assert not compare(first, replace(first, noise_check=changed)).identical
        assert not compare(first, replace(first, platforms=(replace(again, noise_check=changed),))).identical


def test_epsilon_of_another_version_may_differ_beyond_six_digits():
    first = record(2)
    epsilon = first.privacy.epsilon
    older = replace(first.noise_check, draws_compared=0, sampling_compared=0)
    again = replace(first, privacy=replace(first.privacy, epsilon=epsilon * (1 + 1e-9)), noise_check=older)
    assert compare(first, again).identical
    assert not compare(first, replace(first, privacy=replace(first.privacy, epsilon=epsilon * 1.0001))).identical


def test_unfinished_runs_are_not_compared():
    assert compare(record(2), record(1)) is None
    assert compare(record(1), record(2)) is None


def test_summary_of_several_reruns():
    assert summary([]) == ""
    done = Rerun(RunState.DONE, RerunComparison(True, 0.0))
    said = summary([done, Rerun(RunState.RUNNING, None)])
    assert all(part in said for part in (" 1 of 2 done", " 1 equal"))
    assert "others" not in said
    assert "stopped" not in said
    apart = Rerun(RunState.DONE, RerunComparison(False, -0.0123))
    assert all(part in summary([done, apart]) for part in (" 1 equal", "others", " 0.0123 of F1."))
    assert " 1 stopped" in summary([done, Rerun(RunState.FAILED, None)])
