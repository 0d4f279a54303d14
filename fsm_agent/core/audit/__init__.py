"""Reading a log: fold it, check it, explain it."""
