"""Job reports: losses and speeds that jobs report, by spool folder and by socket."""
