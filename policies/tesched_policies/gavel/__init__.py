"""Gavel's policies: the part of the time for each job on each type of accelerator (Narayanan et al., OSDI 2020)."""
