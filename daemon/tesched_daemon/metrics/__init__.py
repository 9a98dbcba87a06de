"""Metrics for Prometheus: their list, the thread that reads them off the store, and the endpoint that serves them."""
