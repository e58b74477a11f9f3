"""`tag` and `redact`: the output that other programs rely on, and the errors for bad input."""

import json
from dataclasses import replace

import pytest

from engine.cli import tagging
from engine.service import Application
from engine.store import paths
from engine.tagging import published_taggers
from tests.engine.cli.conftest import PUBLISHED
from tests.engine.cli.fake_service import NAMES, SCORE

LETTER = "Dear Germany,\r\nAnn met Rosa in Paris.\n"
MASKED = "Dear ███████,\r\n███ met ████ in █████.\n"
PAPER = ("--epsilon", published_taggers.PAPER)
"""The tagger that needs no language model."""


@pytest.fixture(autouse=True)
def _published_taggers(publish, settings):
    """Publish the taggers of the repository with their runs."""
    models = PUBLISHED / paths.MODELS
    publish(*(f"*{path.stem}.json" for path in models.glob("*.npz")))
    (settings.published / paths.MODELS).symlink_to(models)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a text, a subfolder with a text, and a file that is not a text."""
    made = tmp_path / "letters"
    (made / "more").mkdir(parents=True)
    (made / "one.txt").write_bytes(LETTER.encode())
    (made / "more" / "two.txt").write_text("France beat Ann.", encoding="utf-8")
    (made / "picture.png").write_bytes(b"\x89PNG")
    return made


@pytest.mark.repeats(area="processes")
def test_tag_finds_entities_with_the_published_tagger(shell):
    code, out, _ = shell("tag", *PAPER, "--json", typed=LETTER.encode())
    printed = json.loads(out)
    assert code == 0
    assert set(printed) == {"text", "entities"}
    assert printed["text"] == LETTER
    assert printed["entities"]
    for each in printed["entities"]:
        assert set(each) == {"start", "end", "type", "score"}
        assert LETTER[each["start"] : each["end"]].strip()
        assert each["type"] in ("PER", "LOC", "ORG", "MISC")
        assert 0 < each["score"] <= 1


def test_tag_prints_offsets_in_the_unchanged_text(shell, service):
    code, out, _ = shell("tag", *PAPER, "--json", typed=LETTER.encode())
    printed = json.loads(out)
    assert code == 0
    assert printed["text"] == LETTER
    names = [(LETTER[each["start"] : each["end"]], each["type"], each["score"]) for each in printed["entities"]]
    assert names == [(name, NAMES[name], SCORE) for name in ("Germany", "Ann", "Rosa", "Paris")]
    code, out, _ = shell("tag", *PAPER, typed=LETTER.encode())
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert [(int(start), int(end), kind, float(score), name) for start, end, kind, score, name in rows] == [
        (each["start"], each["end"], each["type"], each["score"], name)
        for each, (name, *_) in zip(printed["entities"], names, strict=True)
    ]


@pytest.mark.parametrize("epsilon", [*published_taggers.published(), None])
def test_epsilon_selects_a_published_tagger(shell, service, epsilon):
    code, _, err = shell("tag", *(("--epsilon", epsilon) if epsilon else ()), typed=b"Ann")
    assert code == 0, err
    ((model,),) = (call.args[1] for call in service.text_tagger.return_value.tag.call_args_list)
    assert model.config == published_taggers.asked_for(epsilon or "inf")


def test_tag_prints_the_path_of_each_file(shell, service, folder):
    code, out, _ = shell("tag", folder, folder / "one.txt", *PAPER, "--json")
    expected = [folder / "more" / "two.txt", folder / "one.txt", folder / "one.txt"]
    assert code == 0
    assert [json.loads(line)["file"] for line in out.splitlines()] == [str(path) for path in expected]
    code, out, _ = shell("tag", folder, *PAPER)
    assert {line.split("\t")[0] for line in out.splitlines()} == {str(path) for path in expected}


def test_redact_replaces_entities(shell, service, folder, tmp_path):
    assert shell("redact", *PAPER, "--replace", "mask", typed=LETTER.encode()) == (0, MASKED, "")
    code, out, _ = shell("redact", folder, *PAPER, "--replace", "mask", "--output", tmp_path / "new")
    assert (code, out) == (0, "")
    assert (tmp_path / "new" / "one.txt").read_bytes().decode() == MASKED
    assert (tmp_path / "new" / "more" / "two.txt").read_text(encoding="utf-8") == "██████ beat ███."
    assert (folder / "one.txt").read_bytes().decode() == LETTER
    code, out, _ = shell("redact", *PAPER, "--json", typed=LETTER.encode())
    fields = json.loads(out)
    assert code == 0
    assert [each["replacement"] for each in fields["entities"]] == ["[LOC]", "[PER]", "[PER]", "[LOC]"]
    for each in fields["entities"]:
        assert fields["text"][each["new_start"] : each["new_end"]] == each["replacement"]


def test_run_selects_the_saved_tagger_of_a_run(shell, service, trained_settings):
    run_id = json.loads(shell("submit", "--corpus", "synthetic", "--json")[1])["run_id"]
    code, out, err = shell("tag", "--run", run_id, typed=b"Dear Ann")
    assert (code, out) == (2, "")
    assert run_id in err
    service.finish(trained_settings, run_id)
    app = Application(trained_settings)
    any_model = app.models.load(
        next(run.run_id for run in app.queries.published() if run.config == published_taggers.asked_for("0.76"))
    )
    with trained_settings.artefacts.write(paths.model_name(run_id), "The tagger") as path:
        replace(any_model, run_id=run_id, config=app.queries.get(run_id).config).save(path)
    code, out, err = shell("tag", "--run", run_id, "--json", typed=b"Dear Ann")
    assert code == 0, err
    assert json.loads(out)["text"] == "Dear Ann"
    ((model,),) = (call.args[1] for call in service.text_tagger.return_value.tag.call_args_list)
    assert model.run_id == run_id


@pytest.mark.parametrize(
    ("arguments", "typed", "message"),
    [
        (["tag"], b"", "standard input … empty"),
        (["tag"], b" \n", "standard input … empty"),
        (["tag"], b"caf\xe9", "standard input … UTF-8 … byte 3"),
        (["tag", "/nowhere/a.txt"], b"", "/nowhere/a.txt … No such file or directory"),
        (["tag", "--epsilon", "2"], b"Ann", "epsilon='2' … inf, 8, 3, 1, 0.76"),
        (["tag", "--run", "f" * 16], b"Ann", "f" * 16),
        (["tag", "--run", "f" * 16, "--epsilon", "1"], b"Ann", f"epsilon='1' … run='{'f' * 16}'"),
        (["redact", "--replace", "hide"], b"Ann", "replace='hide' … type, pseudonym, mask"),
        (["redact", "--output", "there"], b"Ann", "output='there' … standard input"),
    ],
)
def test_bad_text_is_exit_code_2_and_one_sentence(shell, service, arguments, typed, message):
    code, out, err = shell(*arguments, typed=typed)
    assert (code, out) == (2, "")
    assert all(part in err for part in message.split(" … ")), err
    assert len(err.splitlines()) == 1


def test_bad_files_are_exit_code_2_and_their_names(shell, service, folder, tmp_path, monkeypatch):
    empty, other, new = tmp_path / "empty", tmp_path / "one.txt", tmp_path / "new"
    empty.mkdir()
    other.write_text("Ann")
    both = (folder / "one.txt", other)
    for command, message in (
        (("tag", empty), f"{empty} … .txt"),
        (("redact", folder), "output … --json"),
        (("redact", folder, *PAPER, "--output", folder), f"output={str(folder)!r} … overwrite"),
        (("redact", *both, *PAPER, "--output", new), f"output={str(new)!r} … one.txt … overwrite"),
        (("redact", both[0], *PAPER, "--output", other), f"output … {other}"),
    ):
        code, out, err = shell(*command)
        assert (code, out) == (2, ""), command
        assert all(part in err for part in message.split(" … ")), err
    assert not new.exists()
    assert (folder / "one.txt").read_bytes().decode() == LETTER
    assert other.read_text() == "Ann"
    monkeypatch.setattr(tagging, "MOST_BYTES", 5)
    code, _, err = shell("tag", both[0])
    assert code == 2
    assert f"{both[0]} " in err
    assert "5 bytes" in err
