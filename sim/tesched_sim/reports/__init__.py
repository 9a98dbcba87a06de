"""What is said about simulations.

`summary`: one run in figures. `case`: one run as reports keep it, small. `compare`: policies and seeds beside each
other. `terminal` and `page`: the same to look at. matplotlib and scipy are imported where they are needed, no sooner.
"""
