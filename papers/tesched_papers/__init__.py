"""The papers' own idealised models, apart from the simulated Slurm: they reproduce figures, and are not installed."""
