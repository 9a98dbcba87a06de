"""The heart of tesched: what is decided, and why. Pure: no I/O, no clock, no randomness, no logging."""
