"""Run times that are learned from finished runs. Pure: no I/O, no clock, no randomness."""
