"""Runs: everything that waits, runs or is done, here and published."""

from pages.runs import listing, saved_models
from pages.shared import seeded_noise_notice, session

runs = session.application()
listing.show(runs)
saved_models.show(runs)
seeded_noise_notice.caption()
