"""What it costs to look at everyone: the paper's table in numbers, and how far news travels.

Source: Vaswani et al. 2017, section 4 and Table 1.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

MEMORY_LENGTHS = (256, 512, 1024, 2048)
KINDS = ("attention", "recurrent", "convolution", "restricted")


@dataclass(frozen=True)
class Costs:
    """The table's three columns, of each kind of layer (4) at each length (N).

    Attributes:
        operations: Multiplications of one layer, without constant factors, as the paper counts them.
        sequential: Steps that must wait for one another.
        path: How many layers or steps news needs from the first word to the last.
    """

    operations: Float[ndarray, "4 N"]
    sequential: Float[ndarray, "4 N"]
    path: Float[ndarray, "4 N"]


def costs(lengths: Sequence[int], width: int, kernel: int, reach: int) -> Costs:
    """Return what a layer costs.

    Args:
        lengths: Of the text, n.
        width: Of the vectors, d.
        kernel: Of the convolution, k ≥ 2; each layer of its tower leaves k times as much room between what it reads.
        reach: Of restricted attention, r ≥ 2: a window of r words, half of them on each side.
    """
    n, one = np.asarray(lengths, dtype=np.float64), np.ones(len(lengths))
    operations = n * n * width, n * width**2, kernel * n * width**2, np.minimum(reach, n) * n * width
    path = np.minimum(n - 1, 1), n - 1, [tower(length, kernel) for length in lengths], np.ceil((n - 1) / (reach // 2))
    return Costs(np.stack(operations), np.stack([one, n, one, one]), np.stack([np.asarray(p, float) for p in path]))


def tower(length: int, kernel: int) -> int:
    """Return how many layers a tower of convolutions needs until the last word hears of the first: ⌈log_k n⌉."""
    layers, room = 0, 1
    while room < length:
        layers, room = layers + 1, room * kernel
    return layers


def walk(kind: str, first: int, last: int, length: int, kernel: int, reach: int) -> list[int]:
    """Return the places that news passes on the shortest way to a later word, one after each layer or step."""
    far, places = last - first, [first]
    if kind == "attention":
        return [first, last] if far else [first]
    if kind == "convolution":  # the distance, digit by digit
        for layer in range(tower(length, kernel)):
            places.append(places[-1] + far // kernel**layer % kernel * kernel**layer)
        return places
    stride = 1 if kind == "recurrent" else reach // 2
    return [*range(first, last, stride), last]


def weight_bytes(length: int, heads: int = 1) -> int:
    """Return how much memory the weights of heads take, in bytes."""
    return heads * length**2 * 4


def memory(lengths: Sequence[int] = MEMORY_LENGTHS, size: int = 64) -> Float[ndarray, "2 N"]:
    """Measure the bytes that a head needs beside q, k, v: as the formula stands, and fused. In the compute thread."""

    def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.mT / size**0.5, dim=-1) @ v

    ways, given = (dense, functional.scaled_dot_product_attention), [torch.randn(3, 1, 1, n, size) for n in lengths]
    return np.array([[_peak(partial(way, *qkv)) for qkv in given] for way in ways], dtype=np.float64)


def _peak(job: Callable[[], object]) -> int:
    """Return the most memory that a job held at once, as torch's own record of what it asked for says."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # it would write on the terminal
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as record:
        job()
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate((event.nbytes() for event in sorted(events, key=lambda e: e.start_ns())), initial=0))
