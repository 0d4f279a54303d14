"""A shipped kit for tests: a simulated world, a fake clock, scripted tools, a store contract."""
