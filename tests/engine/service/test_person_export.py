"""The export of a person has all that is held on them, and nothing of another user."""

import io
import json
import zipfile
from dataclasses import replace
from typing import Any

import pytest

from engine.errors import InvalidConfig, NotAllowed
from engine.service import Application, person_export
from tests.engine.factories import SMALL
from tests.engine.service.test_access import COLUMNS, OTHERS, app, done, of, upload

__all__ = ["app", "of"]

WHOLE = replace(SMALL, data_fraction=1.0)


def exported(app: Application, person: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the values and the texts of an export."""
    file = io.BytesIO()
    person_export.write(app, person, file)
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(contents.pop("person.json")), contents


def test_all_that_is_held_on_a_person_is_exported(app, of):
    rita = of("rita")
    rita.access.note_sign_in()
    name = upload(rita)
    rita.budgets.set_total(name, 1000.0)
    kept = done(rita, replace(WHOLE, corpus=name))
    rita.runs.write_note(kept, "for the paper")
    deleted = done(rita, replace(WHOLE, corpus=name, seed=1))
    rita.runs.delete(deleted)
    rita.access.note_sign_out(5.0)
    for reader in (rita, of("ada"), app):
        values, texts = exported(reader, "rita")
        (run,) = values["runs"]
        assert (run["run_id"], run["note"], run["settings"]["corpus"]) == (kept, "for the paper", name)
        assert len(run["records"]) == 2
        assert values["corpora"] == [{"name": name, "bytes": len(COLUMNS), "files": 1}]
        assert texts == {f"corpora/{name}.conll": COLUMNS}
        assert values["account"]["role"] == "runner"
        assert (len(values["sign_ins"]), len(values["sign_outs"])) == (1, 1)
        actions = {entry["action"] for entry in values["audit_log"]}
        assert {"sign in", "upload", "run", "note", "delete", "sign out", "set a budget"} <= actions
        charged = {entry["run"] for entry in values["budget_entries"] if "run" in entry}
        assert charged == {kept, deleted}
        assert any(entry["kind"] == "budget" for entry in values["budget_entries"])


def test_nothing_of_another_user_is_exported(app, of):
    rita, rudi = of("rita"), of("rudi")
    upload(rita, content=OTHERS)
    his = upload(rudi, "rudis.conll")
    rudi.budgets.set_total(his, 1000.0)
    rudi.access.share("corpus", his, shared=True)
    run = done(rudi, replace(WHOLE, corpus=his))
    rudi.access.share("run", run, shared=True)
    joint = done(rudi)
    rita.runs.submit(SMALL)
    rudi.runs.write_note(joint, "what rudi thinks")
    values, texts = exported(rita, "rita")
    text = json.dumps(values)
    assert [each["run_id"] for each in values["runs"]] == [joint]
    assert values["runs"][0]["also_of_other_users"]
    for private in (run, his, "rudi", "what rudi thinks"):
        assert private not in text.replace(joint, "")
    assert list(texts.values()) == [OTHERS]
    assert values["budget_entries"] == []


def test_other_users_are_refused(app, of):
    upload(of("rita"))
    for name in ("rudi", "vera"):
        with pytest.raises(NotAllowed, match="for admins only"):
            exported(of(name), "rita")
    assert exported(of("vera"), "vera")[0]["account"]["role"] == "viewer"


def test_unknown_person_is_refused_by_name(app):
    with pytest.raises(InvalidConfig, match="name='unknown': nothing is held"):
        exported(app, "unknown")


def test_export_is_in_the_audit_log(app, of):
    upload(of("rita"))
    exported(of("ada"), "rita")
    entry = app.access.audit_log(1)[0]
    assert (entry.person, entry.action, entry.subject) == ("ada", "export person", "rita")
