"""When, and in what order: the loop, its wiring, the configuration, systemd."""
