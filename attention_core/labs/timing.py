"""Real layers, timed here: attention, an LSTM and a convolution of one width, at growing lengths.

Each layer goes forward, and backward where asked, in pieces: between two of them others are served. All of
it belongs in the compute thread.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn
from torch.nn import functional

TIMED = ("attention", "recurrent", "convolution")
POWERS = (2, 1, 1)  # of the length, by the paper's table
LENGTHS = tuple(256 * 2**n for n in range(6))  # 256 to 8,192
HEADS = 4
PIECE = 4e8  # multiplications and additions in one piece: some hundredths of a second on one core
STEPS = 512  # of a recurrent layer in one piece
ENOUGH, FEWEST = 0.25, 3  # seconds after which a length is not timed again, and how often it is before that
MOST_RUNS = 16


def counted(kind: str, length: int, width: int, kernel: int) -> int:
    """Return all multiplications of a layer that is timed: W_Q, W_K, W_V, W_O are among them, and an LSTM's gates."""
    return {
        "attention": 4 * length * width**2 + 2 * length**2 * width,
        "recurrent": 8 * length * width**2,
        "convolution": kernel * length * width**2,
    }[kind]


def slope(lengths: Sequence[int], values: Sequence[float]) -> float:
    """Return the power of n by which values grow: the slope of the best line through their logarithms."""
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])


class _Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def pieces(self, x: Float[Tensor, "1 n d"], *, backward: bool) -> Iterator[None]:
        split = self.into(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = own = [part.detach().requires_grad_(backward) for part in split]
        yield
        rows = max(16, int(PIECE / (2 * x.shape[1] * x.shape[2])) // (6 if backward else 1))
        contexts = []
        for part in query.split(rows, dim=2):
            contexts.append(functional.scaled_dot_product_attention(part, key, value))
            yield
        context = torch.cat(contexts, dim=2).detach().requires_grad_(backward)
        out = self.out(context.transpose(1, 2).flatten(2))
        if not backward:
            return
        out.backward(torch.ones_like(out))
        for part, slopes in zip(contexts, context.grad.split(rows, dim=2), strict=True):
            part.backward(slopes)
            yield
        torch.autograd.backward(split, torch.stack([part.grad for part in own]))


class _Recurrent(nn.LSTM):
    def __init__(self, width: int) -> None:
        super().__init__(width, width, batch_first=True)

    def pieces(self, x: Float[Tensor, "1 n d"], *, backward: bool) -> Iterator[None]:
        parts, state = [], None
        for part in x.split(STEPS, dim=1):
            start = None if state is None else [of.detach().requires_grad_(backward) for of in state]
            out, state = self(part, start)
            parts.append((start, out, state))
            yield
        slopes: list[Tensor] = []
        for start, out, state in reversed(parts) if backward else ():
            ends = [out, *(state if slopes else ())]
            torch.autograd.backward(ends, [torch.ones_like(out), *slopes])
            slopes = [of.grad for of in start or ()]
            yield


class _Convolution(nn.Conv1d):
    def __init__(self, width: int, kernel: int) -> None:
        super().__init__(width, width, kernel, padding="same")

    def pieces(self, x: Float[Tensor, "1 n d"], *, backward: bool) -> Iterator[None]:
        out = self(x.mT)
        if backward:
            yield
            out.backward(torch.ones_like(out))


@dataclass(frozen=True)
class Times:
    """What was measured so far; NaN where nothing was yet.

    Attributes:
        lengths: N of them.
        seconds: The shortest time of each kind of layer (3: attention, recurrent, convolution).
        share: How much is done, 0 to 1.
    """

    lengths: tuple[int, ...]
    seconds: Float[ndarray, "3 N"]
    share: float


@dataclass(eq=False)
class Timing:
    """Times three layers of one width at growing lengths, a piece at a time.

    Args:
        width: A multiple of 4.
        kernel: Of the convolution.
        lengths: Of the text; the longest come last.
        backward: Whether gradients are computed as well.
        device: Where.
    """

    width: int
    kernel: int
    lengths: tuple[int, ...]
    backward: bool
    device: str = "cpu"
    done: bool = False
    seconds: dict[tuple[str, int], float] = field(default_factory=dict)
    what: str = "timing"

    def __post_init__(self) -> None:
        """Plan the run."""
        self._steps = self._measure()

    def step(self) -> None:
        """Do a piece more."""
        self.done = next(self._steps, True) is True

    def times(self) -> Times:
        """Return what was measured so far."""
        found = [[self.seconds.get((kind, n), np.nan) for n in self.lengths] for kind in TIMED]
        share = sum(n for _, n in self.seconds) / (len(TIMED) * sum(self.lengths))
        return Times(self.lengths, np.array(found), 1.0 if self.done else share)

    def _measure(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            made = _Attention(self.width), _Recurrent(self.width), _Convolution(self.width, self.kernel)
        layers = dict(zip(TIMED, (layer.to(self.device) for layer in made), strict=True))
        yield
        for length in (self.lengths[0], *self.lengths):  # the first time for nothing: it is slower
            given = torch.randn(1, length, self.width, device=self.device).requires_grad_(self.backward)
            for kind, layer in layers.items():
                taken: list[float] = []
                while len(taken) < FEWEST and sum(taken) < ENOUGH:
                    pieces, spent, ended = layer.pieces(given, backward=self.backward), 0.0, False
                    while not ended:
                        start = time.perf_counter()
                        with torch.set_grad_enabled(self.backward):
                            ended = next(pieces, True) is True
                        if not self.device.startswith("cpu"):
                            torch.accelerator.synchronize()
                        spent += time.perf_counter() - start
                        yield
                    taken.append(spent)
                self.seconds[kind, length] = min(taken)


def devices() -> tuple[str, ...]:
    """Return where layers are timed: on the CPU, and on the GPU where there is one."""
    from attention_core.models.loading import best_device

    return tuple(dict.fromkeys(("cpu", best_device().type)))


_timings: "OrderedDict[tuple, Timing]" = OrderedDict()


def timing(
    width: int, kernel: int, longest: int, *, backward: bool, device: str = "cpu", again: bool = False
) -> Timing:
    """Return the timing of these layers, which everybody shares; ``again`` begins it anew."""
    key = (width, kernel, longest, backward, device)
    if again:
        _timings.pop(key, None)
    if key not in _timings:
        _timings[key] = Timing(width, kernel, tuple(n for n in LENGTHS if n <= longest), backward, device)
    _timings.move_to_end(key)
    while len(_timings) > MOST_RUNS:
        _timings.popitem(last=False)
    return _timings[key]
