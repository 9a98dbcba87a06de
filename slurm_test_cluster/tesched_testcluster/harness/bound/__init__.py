"""An attack on guard.bound: a small Slurm, its users, and a ledger of what TE jobs truly delayed."""
