"""The command `retention`: it lists, and deletes only with its option."""

import json

from engine.service import Application
from engine.settings import Settings
from tests.engine.factories import SMALL
from tests.engine.service.test_retention import OLD, set_times


def test_retention_lists_and_deletes_with_its_option_only(shell):
    app = Application(Settings.from_environment())
    app._context.store.submit("0123456789abcdef", SMALL, "0" * 64)
    app._context.store.cancel("0123456789abcdef")
    set_times(app, "0123456789abcdef", OLD)
    code, out, _ = shell("retention", "--days", "30")
    assert code == 0
    assert "run 0123456789abcdef on synthetic, of no owner" in out
    assert "Nothing was deleted" in out
    assert len(app.queries.runs_of()) == 1
    fields = json.loads(shell("retention", "--days", "30", "--delete", "--json")[1])
    assert (fields["runs"], fields["deleted"]) == (["0123456789abcdef"], True)
    assert app.queries.runs_of() == []
    app.close()


def test_period_of_the_environment_is_the_default(shell, monkeypatch):
    monkeypatch.setenv("EPSILON_RETENTION_DAYS", "30")
    assert shell("retention")[0] == 0
