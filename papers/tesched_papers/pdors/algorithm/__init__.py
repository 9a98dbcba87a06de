"""PD-ORS as published (Algorithms 1 to 4): all slots at once, fractional placements rounded."""
