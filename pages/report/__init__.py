"""Page Privacy report: the privacy guarantee of a run, for readers who must approve it."""
