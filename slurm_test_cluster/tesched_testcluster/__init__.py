"""A real Slurm for tests and for the demo: one definition, started on this host or in Docker."""
