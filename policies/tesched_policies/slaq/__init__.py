"""SLAQ: cores go where the next one lowers the loss most. Loss curves, their fits, forecasts, and the allocation."""
