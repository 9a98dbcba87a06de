"""A daemon, its store and its Slurm through faults of every kind, as a state machine of Hypothesis."""
