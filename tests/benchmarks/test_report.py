"""Printed and stored output of all speed benchmarks."""

import json

import numba

from benchmarks import lessons, readme_figures, report, results_table
from engine.hardware import Processor
from engine.records import Measurement
from engine.settings import REPOSITORY
from engine.store import benchmark_results
from pages.learn.lessons import LESSONS

PROCESSOR = Processor(name="Some Processor", cores=1, threads=2, first_cache=16 * 2**10, second_cache=512 * 2**10)
MACHINE = "Some Processor, 1 core (2 threads), 8 GB, Linux"
STEP = {"keras_ms": 40.0, "ours_private_ms": 8.0, "tensorflow_privacy_ms": 640.0}


def use_test_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(report, "FOLDER", tmp_path / benchmark_results.FOLDER)
    monkeypatch.setattr(report, "processor", lambda: PROCESSOR)
    monkeypatch.setattr(report, "machine_class", lambda: f"{PROCESSOR.name}, {PROCESSOR.cores_text}, 8 GB, Linux")


def test_finish_prints_processor_caches_and_threads(monkeypatch, tmp_path, capsys):
    use_test_machine(monkeypatch, tmp_path)
    threads = numba.get_num_threads()
    report.finish("step", STEP, "figures", as_json=False, save=False)
    printed = capsys.readouterr().out
    assert printed.startswith("figures\n\n")
    assert all(part in printed for part in (MACHINE, "16 KB", "512 KB", f"threads used: {threads}."))
    report.finish("step", STEP, "figures", as_json=True, save=False)
    printed = json.loads(capsys.readouterr().out)
    assert printed == STEP | {
        "machine": MACHINE,
        "threads": threads,
        "caches": PROCESSOR.caches_text,
    }


def test_saved_result_has_processor_and_caches(monkeypatch, tmp_path):
    use_test_machine(monkeypatch, tmp_path)
    report.finish("step", STEP, "figures", as_json=True, save=True)
    stored = benchmark_results.read_all(tmp_path)["step"]
    assert stored.machine == MACHINE
    assert stored.values["caches"] == PROCESSOR.caches_text


def test_readme_figures_and_tables_name_the_processor(monkeypatch):
    stored = Measurement(values=STEP, created="2026-11-22", machine="Some Processor", command="c", engine_version="6")
    monkeypatch.setattr(benchmark_results, "read_all", lambda _: {"step": stored})
    [(_, figure, *_)] = readme_figures.speed()
    assert figure.startswith("8.0 ms ")
    assert "Some Processor" in figure
    assert results_table.speed().endswith("\n\nOn Some Processor.")


def test_classroom_table_has_lessons_tagging_and_machines(monkeypatch):
    timed = {"lesson": "1. One", "moved": "Known", "first": 0.51, "again": 0.2}
    about = {"created": "2026-11-24", "machine": "Some Processor", "engine_version": "6"}
    read = {"start_seconds": 9.5, "seconds_500_words": 0.4, "sentences_a_second": 5000}
    stored = {
        "lessons": Measurement(values={"lessons": [timed], "first_point": 1.25}, command="l --save", **about),
        "tagging": Measurement(values=read | {"sentences_a_second_with_features": 90}, command="t --save", **about),
    }
    monkeypatch.setattr(benchmark_results, "read_all", lambda _: stored)
    text = results_table.classroom()
    assert "| 1. One | Known | 0.51 | 0.20 |" in text
    assert "first point 1.2 s" in text
    (row,) = (line for line in text.splitlines() if "500 words" in line)
    assert row.endswith("| 0.40 s |")
    assert text.count("On Some Processor (`") == 2
    assert "--save" not in text
    monkeypatch.setattr(benchmark_results, "read_all", lambda _: {})
    assert results_table.classroom() == "Not measured yet."


def test_every_lesson_has_a_timed_control():
    assert list(lessons.CONTROLS) == [lesson.name for lesson in LESSONS]


def test_saved_lessons_have_the_present_labels_in_the_table():
    saved = benchmark_results.read_all(REPOSITORY / "cached_results")["lessons"]
    rows = [line.strip("| ").split(" | ")[:2] for line in report.lessons_table(saved.values).splitlines()[2:9]]
    assert rows == [[f"{number}. {each.title}", lessons.CONTROLS[each.name]] for number, each in enumerate(LESSONS, 1)]
