"""The daemon: the loop, its wiring, the configuration, systemd."""
