"""Settings from the environment: a value that makes no sense is reported once and the default used."""

import logging
import os
from functools import cache


def whole_number(name: str, default: int) -> int:
    """Return a setting that is a whole number above 0."""
    return _read(name, os.environ.get(name, ""), default)


@cache
def _read(name: str, told: str, default: int) -> int:
    if told.isascii() and told.isdecimal() and int(told):
        return int(told)
    if told:
        logging.getLogger(__name__).warning("%s=%s is no whole number above 0; using %d", name, told, default)
    return default
