"""Fields of jobs in Slurm: what is wanted of them, what tesched has set, and how each is put back."""
