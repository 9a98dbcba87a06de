"""client_scripts."""
