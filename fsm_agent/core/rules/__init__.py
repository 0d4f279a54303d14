"""The decision layer as data: tables, the laws above them, and the proof that a table is sound."""
