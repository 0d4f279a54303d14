"""Plans from files and from models."""
