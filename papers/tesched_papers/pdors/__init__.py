"""A slotted cluster for training jobs with parameter servers: PD-ORS beside FIFO, DRF, Dorm and OASiS."""
