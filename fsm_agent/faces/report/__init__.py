"""One HTML file that tells a run to whoever was not there, and carries the log that proves it."""
