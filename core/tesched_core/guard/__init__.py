"""Limits that no policy can pass: eligibility before a policy plans, admission after it."""
