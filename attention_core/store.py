"""What was computed and is kept for everyone, bounded in bytes on each device: the least recently used goes first."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from cachetools import LRUCache

from attention_core.settings import settings

RESERVE = 2**28  # bytes of a device that are left free, however much is allowed


class Key(NamedTuple):
    """What something was computed from.

    Attributes:
        model: The model's name.
        text: What it read, or the name of a picture.
        precision: Of its weights.
        edits: What was changed in the model.
        what: What it is, where several things are kept of a text.
    """

    model: str
    text: Hashable
    precision: str = ""
    edits: tuple = ()
    what: Hashable = "capture"


class _Kept(NamedTuple):
    value: Any
    bytes: int
    leave: Callable[[], object]


class _Shelf(LRUCache):
    def popitem(self) -> tuple[Key, _Kept]:
        key, kept = super().popitem()
        kept.leave()
        return key, kept


class Store:
    """A store with a shelf for each device. It belongs to one thread.

    The bound is ``GAZE_CACHE_MB`` for each device; unset, a quarter of what would be free without the store. It is
    found anew whenever something comes, so that the oldest leaves, too, when others take the memory.
    """

    def __init__(self, free: Callable[[str], int] | None = None) -> None:
        self._shelves: dict[str, _Shelf] = {}
        self._free = free

    def get(self, key: Key) -> Any:  # noqa: ANN401
        """Return what is kept, or None; it is then the last to go."""
        shelf = self._of(key)
        return None if shelf is None else shelf[key].value

    def keep(self, key: Key, value: object, size: int, device: str, leave: Callable[[], object] = lambda: None) -> bool:
        """Keep something, while others that have not been asked for the longest leave.

        Args:
            key: What it was computed from; what is kept under it already is replaced.
            value: What is kept.
            size: How many bytes of the device it holds.
            device: Where they are.
            leave: Called when it leaves to make room, also when it is too large to be kept at all.

        Returns:
            Whether it is kept; not where it is larger than the whole store.
        """
        if (old := self._of(key)) is not None:
            del old[key]
        most, shelf = self.most(device), self._shelves.setdefault(device, _Shelf(float("inf"), lambda kept: kept.bytes))
        kept = size <= most
        while shelf and shelf.currsize + kept * size > most:
            shelf.popitem()
        if kept:
            shelf[key] = _Kept(value, size, leave)
        else:
            leave()
        return kept

    def most(self, device: str) -> int:
        """Return how many bytes of a device may be kept now."""
        held, told = self.held(device), settings().cache_mb
        there = held + self._free_on(device)
        return there // 4 if told is None else int(min(told * 2**20, max(0, there - RESERVE)))

    def held(self, device: str) -> int:
        """Return how many bytes of a device are kept."""
        return int(self._shelves[device].currsize) if device in self._shelves else 0

    def drop(self, which: Callable[[Key], bool]) -> None:
        """Let go of some."""
        for shelf in self._shelves.values():
            for key in [key for key in shelf if which(key)]:
                shelf.pop(key).leave()

    def clear(self) -> None:
        """Let go of everything."""
        self.drop(lambda _: True)

    def _of(self, key: Key) -> _Shelf | None:
        return next((shelf for shelf in self._shelves.values() if key in shelf), None)

    def _free_on(self, device: str) -> int:
        if self._free is not None:
            return self._free(device)
        from attention_core.memory import free

        return free(device)

    def __contains__(self, key: object) -> bool:
        return any(key in shelf for shelf in self._shelves.values())

    def __iter__(self) -> Iterator[Key]:
        """Go through all keys."""
        for shelf in self._shelves.values():
            yield from shelf

    def __len__(self) -> int:
        return sum(map(len, self._shelves.values()))
