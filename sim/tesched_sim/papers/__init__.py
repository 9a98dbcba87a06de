"""The papers' own idealised models, apart from the simulated Slurm: for the commands that reproduce figures."""
