"""The report on one run, or on two side by side, for the people who must sign."""
