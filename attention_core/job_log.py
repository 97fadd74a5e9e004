"""One line for each computation: what, of which model, of how many tokens, how long, and whether the store had it.

The logger is "gaze.jobs", at INFO. What somebody typed is in a line only where ``GAZE_LOG_TEXT`` says so.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from attention_core.settings import settings

LOG = logging.getLogger("gaze.jobs")


@dataclass
class _Line:
    model: str = "-"
    tokens: str = "-"
    found: str = "-"
    text: object = None


@runtime_checkable
class Work(Protocol):
    """Work in pieces."""

    done: bool


_line = _Line()  # of the job that the compute thread is at
_spent: WeakKeyDictionary[Work, float] = WeakKeyDictionary()


@contextmanager
def line(what: str, work: Work | None = None) -> Iterator[None]:
    """Write the line of a computation when it has ended, in the compute thread.

    That of ``work`` in pieces comes with the last one, and tells the time of all. A helper, whose own name begins with
    an underscore or which has none, is no computation: its line is there at DEBUG only.
    """
    global _line
    _line, start, error = _Line(), time.perf_counter(), ""
    try:
        yield
    except BaseException as failed:
        error = f" failed={type(failed).__name__}"
        raise
    finally:
        took = 1000 * (time.perf_counter() - start)
        if work is not None:
            took += _spent.pop(work, 0.0)
            if not (work.done or error):
                _spent[work] = took
        if work is None or work.done or error:
            helper = what.rpartition(".")[2].startswith(("_", "<"))
            _write(what, _line, took, error, logging.DEBUG if helper and not error else logging.INFO)


def write(what: str, model: str, tokens: int, seconds: float) -> None:
    """Write the line of a computation that was made of several jobs."""
    _write(what, _Line(model, str(tokens), "computed"), 1000 * seconds, "", logging.INFO)


def _write(what: str, one: _Line, took: float, error: str, level: int) -> None:
    if LOG.isEnabledFor(level):
        text = f" text={one.text!r}" if one.text is not None and settings().log_text else ""
        said = what, one.model, one.tokens, one.found, took, error, text
        LOG.log(level, "%s model=%s tokens=%s from=%s ms=%.1f%s%s", *said)


def of(model: str) -> None:
    """Say of which model the computation is."""
    _line.model = model


def note(model: str, tokens: int, text: object, *, stored: bool) -> None:
    """Say what the computation is of. Of several, its line tells the last, and "store" if all of them were there."""
    _line.model, _line.tokens, _line.text = model, str(tokens), text
    _line.found = "store" if stored and _line.found != "computed" else "computed"


def show() -> None:
    """Let the lines appear on the terminal."""
    if not LOG.handlers:
        handler = _Terminal()
        handler.setFormatter(logging.Formatter("%(asctime)s gaze %(message)s"))
        LOG.addHandler(handler)
        LOG.setLevel(logging.INFO)


class _Terminal(logging.StreamHandler):
    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:  # noqa: ANN401
        """Whatever stands for it now."""
        return sys.stderr
