"""Where runs are computed: the process that gives out queued runs, the workers, and how both are found."""
