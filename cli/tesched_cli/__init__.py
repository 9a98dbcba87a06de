"""Command line of tesched."""
