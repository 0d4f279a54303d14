"""The package's version: stands in every log, and in ``pyproject.toml``."""

VERSION = "0.1.0"
