"""The decision layer for people who keep their own loop."""
