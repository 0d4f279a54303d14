"""The commands about files of plans and scenarios."""
