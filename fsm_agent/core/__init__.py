"""Pure: values and functions. No clock, chance, I/O, threads or logging; those come in as arguments."""
