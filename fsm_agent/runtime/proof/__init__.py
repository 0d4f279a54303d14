"""Logs as they lie around: read, audited, anchored, signed, removed."""
