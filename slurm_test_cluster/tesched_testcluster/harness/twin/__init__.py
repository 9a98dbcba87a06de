"""Parts of `python -m benchmarks.twin` that run no Slurm: its jobs, its policies, and the comparison."""
