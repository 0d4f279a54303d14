"""The commands that look at runs and look after stores, and what they show."""
