"""The commands about rule tables."""
