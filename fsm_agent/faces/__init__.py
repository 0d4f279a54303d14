"""The faces of the engine: the command line, and what people and programs are shown."""
