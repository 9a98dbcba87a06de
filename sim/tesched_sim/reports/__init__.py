"""Reports on simulations.

`summary`: one run in figures. `case`: one run as reports keep it, small. `compare`: policies and seeds beside each
other. `terminal` and `page` show the same. Matplotlib is imported only where it is needed.
"""
