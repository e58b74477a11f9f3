"""Audits as text."""

import re

from engine.config import SimulationConfig
from engine.reports.audits import audit_command, current_command
from engine.settings import REPOSITORY
from engine.store.audits import read_all


def test_commands_of_audits_have_the_current_name_of_the_option():
    """Those of published audits were stored under an earlier name."""
    made = audit_command(SimulationConfig(), 100, 3, "a" * 16)
    assert made.endswith("--canaries 100 --shadow-models 3")
    published = read_all(REPOSITORY / "cached_results").values()
    assert any("--references" in audit.command for audit in published)
    for audit in published:
        assert re.search(r" --shadow-models \d+$", current_command(audit))
        assert "--references" not in current_command(audit)
