"""Orders: one preemption each, from the plan until its victims run again."""
