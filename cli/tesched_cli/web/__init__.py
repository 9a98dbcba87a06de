"""`tesched web`: a live page of the state store, read-only."""
