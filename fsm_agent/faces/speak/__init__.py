"""The commands that hand a person's word to a run."""
