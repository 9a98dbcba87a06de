"""Meaning of Slurm's records: a job's class, why it waits, how long it ran."""
