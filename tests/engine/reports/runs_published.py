"""Published runs used in tests of reports."""

from engine.settings import REPOSITORY

PRIVATE, PLAIN = "83a51a9931b3bf9c", "04047bdafeee8eb7"
WHOLE = "5a462796829f472a"
"""A run with client-level privacy."""
SILOS = "d06e09770bd440b3"
"""A run of three silos with DP-SGD, each with its own noise check."""
OTHER_SPLIT = "262f85e1978f4c85"
"""A run without noise on another split of a silo's corpus."""
FEDERATED, PLATFORMS, SYNTHETIC = "119ecce63aa80ab7", "6b9744832342464d", "dbfa379e0440f8f3"


def paths(*run_ids: str):
    """Return the files of published runs."""
    found = []
    for run_id in run_ids:
        found += (REPOSITORY / "cached_results").glob(f"*{run_id}.json")
    assert len(found) == len(run_ids)
    return found
