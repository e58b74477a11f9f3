"""Page Runs: queued, running and finished runs, including the published ones."""

from pages.runs import listing, saved_models
from pages.shared import seeded_noise_notice, session

app = session.application()
listing.show(app)
saved_models.show(app)
seeded_noise_notice.caption()
