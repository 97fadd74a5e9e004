"""Settings from the environment: a value that makes no sense is reported once, and the default used."""

import logging
import os
from functools import cache


def positive(name: str, default: float | int) -> float | int:
    """Return a setting that is a number above 0."""
    return _read(name, os.environ.get(name, ""), default)


@cache
def _read(name: str, told: str, default: float | int) -> float | int:
    try:
        number = float(told or default)
    except ValueError:
        number = 0
    if 0 < number < float("inf"):
        return number
    logging.getLogger(__name__).warning("%s=%s is no number above 0; using %g", name, told, default)
    return default
