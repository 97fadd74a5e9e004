"""What kind of layer each one is: local or full, and which number it has where layers without attention lie between."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from attention_core.captured import Capture


class Layers(NamedTuple):
    """The layers of one kind of attention, in words that a page can say.

    Attributes:
        windows: How far each one looks: nearer than so many positions; None for a full one.
        both: Whether a window reaches to both sides.
        places: The number of each in the model, from 0.
        skipped: The numbers of the layers in which no attention was seen, from 0.
        others: The paths of other parts in which none was seen, such as "encoder".
    """

    windows: tuple[int | None, ...]
    both: bool
    places: tuple[int, ...]
    skipped: tuple[int, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def local(self) -> tuple[int, ...]:
        """The local ones, from 0."""
        return tuple(n for n, window in enumerate(self.windows) if window is not None)


def layers_of(seen: "Capture", kind: str | None = None) -> Layers:
    """Say which layers are local, and which are skipped."""
    from attention_core.captured import NUMBERED
    from attention_core.interface import LayerAttention

    kind = kind or seen.kinds[0]
    own = seen.attention[kind]
    numbered = [(path, NUMBERED.match(path)) for path in seen.skipped]
    return Layers(
        tuple(of.window if isinstance(of, LayerAttention) else None for of in own),
        not seen.causal(0, kind),
        tuple(seen.place(layer, kind) for layer in range(len(own))),
        tuple(int(found[2]) for _, found in numbered if found),
        tuple(path for path, found in numbered if not found),
    )


def ranges(numbers: Iterable[int]) -> str:
    """Write whole numbers as people do: "1–5, 7, 9–11"; neighbours two by two stay apart: "1, 2"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts: Sequence[str] = [
        f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(str(number) for number in run) for run in runs
    ]
    return ", ".join(parts)
