"""`tesched check`: a job before it is submitted, and whether its work would survive a preemption."""
