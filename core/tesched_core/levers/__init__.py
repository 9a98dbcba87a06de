"""Levers: what tesched changes in Slurm, and how each change is followed and put back."""
