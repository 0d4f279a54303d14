"""The commands that drive a run, and who answers its questions meanwhile."""
