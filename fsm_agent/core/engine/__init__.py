"""The run as a function: state, fold, door, facts, decisions, endings."""
