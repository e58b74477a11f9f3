"""The privacy report on one run, or on two runs side by side, for the readers who approve a release."""
