"""Allocators of Gavel: how accelerator time is divided, for each objective of the paper."""
