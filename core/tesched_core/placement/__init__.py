"""Placement: on which nodes a job fits, now and after some victims have left."""
