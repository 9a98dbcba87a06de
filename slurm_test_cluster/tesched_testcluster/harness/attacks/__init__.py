"""Attacks of ordinary users on a daemon beside a real Slurm: `python -m benchmarks.hostile` runs them."""
