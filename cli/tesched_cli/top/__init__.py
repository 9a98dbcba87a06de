"""`tesched top`: queue, orders, nodes and decisions on a terminal, as they change."""
