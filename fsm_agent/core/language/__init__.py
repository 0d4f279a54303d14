"""The small total language of plans: expressions with three values, references with one meaning."""
