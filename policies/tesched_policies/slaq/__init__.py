"""SLAQ: whose next core lowers the loss most. Loss curves, their fits, forecasts, and who gets how many cores."""
