"""Commands that reproduce the papers' figures."""
