"""Runs: everything that waits, runs or is done, here and published."""

from pages.runs import listing
from pages.shared import door

listing.show(door.runs())
