"""Gavel's own simulation: its generator of jobs, its measured speeds, its rounds, and what a restart really costs."""
