"""Whose job is next: everybody in turn, so that many pieces of one long job keep nobody waiting for more than one."""

import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple


class Gone(Exception):
    """Whoever asked has left before the job's turn came, so it was not started."""


class Asker(NamedTuple):
    """Who asks for jobs.

    Attributes:
        name: Whose turn it is: one for each session.
        there: Whether they still wait; asked when a job's turn comes.
        leave: Called in their own thread after a job was not started; if it returns, :class:`Gone` is raised there.
    """

    name: Hashable
    there: Callable[[], bool] = lambda: True
    leave: Callable[[], object] = lambda: None


class Turns:
    """A queue in front of a thread: the askers take turns, and the jobs of one are done in their order."""

    def __init__(self, thread: Executor) -> None:
        self._thread, self._lock = thread, threading.Lock()
        self._waiting: dict[Hashable, deque[tuple[Callable[[], Any], Asker, Future]]] = {}  # whose turn is next first

    def submit(self, job: Callable[[], Any], asker: Asker) -> Future:
        """Put a job into the queue; the future has its result, or :class:`Gone`."""
        future: Future = Future()
        with self._lock:
            self._waiting.setdefault(asker.name, deque()).append((job, asker, future))
        self._thread.submit(self._next)
        return future

    def __len__(self) -> int:
        """How many jobs wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def _next(self) -> None:
        with self._lock:
            name = next(iter(self._waiting))
            own = self._waiting.pop(name)
            job, asker, future = own.popleft()
            if own:
                self._waiting[name] = own  # behind everybody else who waits
        try:
            if not asker.there():
                raise Gone
            future.set_result(job())
        except BaseException as error:
            future.set_exception(error)
        finally:
            del future  # an error knows this frame: they would keep one another, and all that the job had, in memory
