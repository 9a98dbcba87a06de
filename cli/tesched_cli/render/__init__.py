"""Rendering: curves, pages and tables from plain values."""
