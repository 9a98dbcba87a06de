"""Gavel's policies: a job's types of accelerators, for which part of the time (Narayanan et al., OSDI 2020)."""
