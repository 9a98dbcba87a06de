"""What tests and benchmarks share beside a test cluster: daemons, clients, marks, a store, measurements."""
