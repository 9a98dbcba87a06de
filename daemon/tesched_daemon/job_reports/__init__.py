"""Job reports: losses and speeds that jobs tell of themselves, by spool folder and by socket."""
