"""Where secrets stop: on the way into the core, and in the words of people."""
