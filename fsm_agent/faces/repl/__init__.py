"""The prompt: a person drives a run line by line, at a terminal or from a script; its commands are rows of the table."""
