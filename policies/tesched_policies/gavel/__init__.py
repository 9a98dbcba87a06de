"""Gavel's policies: which type of accelerator for whom, for which part of the time (Narayanan et al., OSDI 2020)."""
