"""Another plan: what a planner sees, the gate its proposal passes, how it is adopted."""
