"""Intent: the types of a plan, how a document becomes one, and every fault it may have."""
