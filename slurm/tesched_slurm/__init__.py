"""The real cluster: observers and actuators over pyslurm and over Slurm's own commands."""
