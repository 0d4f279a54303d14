"""Machines and plans as drawings."""
