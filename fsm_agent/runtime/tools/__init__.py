"""What tools are, where they are registered, how they are found, and every way one can end."""
