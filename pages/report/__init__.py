"""Report: what a run promises and to whom, for the people who must sign."""
