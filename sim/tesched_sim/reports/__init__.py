"""Reports on simulations.

`summary`: one run in figures. `case`: one run as reports keep it, small. `compare`: policies and seeds beside each
other. `terminal` and `page`: the same to look at. Matplotlib is imported only where it is needed.
"""
