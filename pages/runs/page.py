"""Runs: everything that waits, runs or is done, here and published."""

from pages.runs import kept, listing
from pages.shared import door, simulated

runs = door.runs()
listing.show(runs)
kept.show(runs)
simulated.caption()
