"""Limits that no policy can pass: eligibility before a policy is asked, admission after it."""
