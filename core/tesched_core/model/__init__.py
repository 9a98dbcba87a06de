"""Data alone: what Slurm shows, what was decided, what is remembered. No rule of the scheduler lives here."""
