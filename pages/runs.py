"""Runs: everything that waits, runs or is done, here and published."""

from pages.shared import door, listing

listing.show(door.runs())
