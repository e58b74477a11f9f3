"""The cluster that computes runs: the dispatcher of queued runs, the workers, and the discovery of both."""
