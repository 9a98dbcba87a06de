"""SLAQ on a virtual clock: jobs that train on as many cores as they are given, and what their losses come to."""
