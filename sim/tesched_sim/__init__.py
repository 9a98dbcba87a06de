"""A Slurm that is not there: a virtual clock, workloads, traces and reports, for the heart that runs in production."""
