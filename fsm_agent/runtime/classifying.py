"""The shipped classification of outcomes; only who carries calls out, or judges what they brought, needs it."""

from functools import lru_cache

from fsm_agent.core.classification.classify import Classifier
from fsm_agent.runtime.configs import read_toml


def load_classifier() -> Classifier:
    """Return the shipped classification of outcomes.

    Raises:
        ConfigError: ``configs/classify.toml`` cannot be used.
    """
    return _classifier()


@lru_cache(maxsize=1)
def _classifier() -> Classifier:
    """Read the shipped classification once; it is a value."""
    return Classifier.from_data(read_toml("classify"))
