"""What an error proves: a signal, and whether an effect was applied. Imports no client library."""
