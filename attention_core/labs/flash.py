"""FlashAttention, tile by tile, with everything that it keeps in between; and what it reads and writes.

Source: Dao et al. 2022, algorithm 1.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Tiles:
    """The state after each tile, S of them, in the order in which they are computed: all queries of a block of keys.

    Rows that no tile has reached yet have maximum −∞, sum 0 and context 0.

    Attributes:
        rows: First query of each tile and the one after the last, (S, 2).
        columns: The same for its keys.
        maximum: m: each row's largest score so far.
        total: l: the sum of exp(score − m) so far.
        context: The softmax over the keys so far, times their values.
    """

    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    maximum: Float[Tensor, "S Q"]
    total: Float[Tensor, "S Q"]
    context: Float[Tensor, "S Q Dv"]


class Traffic(NamedTuple):
    """Numbers read from and written to slow memory, by the dense way and by tiles; and the tiles' size."""

    dense: int
    tiles: int
    rows: int
    columns: int


def tiles(
    scores: Float[Tensor, "Q K"],
    value: Float[Tensor, "K Dv"],
    size: tuple[int, int],
    allowed: Bool[Tensor, "Q K"] | None = None,
) -> Tiles:
    """Attend tile by tile; the last state is attention itself, to the rounding of float numbers.

    Args:
        scores: What enters the softmax; of a tile, only its own part is looked at.
        value: What each key hands over.
        size: Queries and keys of a tile, at least 1 each.
        allowed: True where a query may look.
    """
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    queries, keys = scores.shape
    maximum = torch.full((queries,), -torch.inf)
    total, context = torch.zeros(queries), torch.zeros(queries, value.shape[1])
    order, states = [], []
    for columns, rows in _order(queries, keys, size):
        at, part = slice(*rows), scores[slice(*rows), slice(*columns)]
        top = torch.maximum(maximum[at], part.amax(dim=1))
        safe = top.masked_fill(top == -torch.inf, 0)  # a row in which nothing was allowed yet
        shares = (part - safe[:, None]).exp()
        shrink = (maximum[at] - safe).exp()  # what was summed up before, seen from the new maximum
        grown = shrink * total[at] + shares.sum(dim=1)
        mixed = (shrink * total[at])[:, None] * context[at] + shares @ value[slice(*columns)]
        maximum, total, context = maximum.clone(), total.clone(), context.clone()
        maximum[at], total[at] = top, grown
        context[at] = mixed / grown.where(grown > 0, torch.ones(()))[:, None]
        order.append((rows, columns))
        states.append((maximum, total, context))
    return Tiles(*zip(*order, strict=True), *(torch.stack(of) for of in zip(*states, strict=True)))


def traffic(length: int, size: int, fast: int) -> Traffic:
    """Count the numbers that one head moves, forward: the dense way writes and reads scores and weights, n² each.

    Args:
        length: Of the text, n.
        size: Of a head, d.
        fast: How many numbers fit in fast memory, M; at least 4·d.

    Raises:
        ValueError: If not even one key and one query fit.
    """
    if fast < 4 * size:
        raise ValueError(f"fast memory of {fast} numbers holds no tile of a head of size {size}: it takes {4 * size}")
    columns = min(length, math.ceil(fast / (4 * size)))
    rows = min(columns, size, length)
    blocks = math.ceil(length / columns)
    dense = 4 * length * size + 4 * length**2
    return Traffic(dense, 2 * length * size + blocks * (3 * length * size + 4 * length), rows, columns)


def _order(queries: int, keys: int, size: tuple[int, int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for column in range(0, keys, size[1]):
        for row in range(0, queries, size[0]):
            yield (column, min(column + size[1], keys)), (row, min(row + size[0], queries))


@dataclass(frozen=True)
class HeadTiles:
    """A real head, tile by tile, beside what it is at once.

    Attributes:
        labels: Its tokens.
        scores: What enters the softmax.
        tiles: The states.
        difference: The largest difference of a number between the last state and the context computed at once.
    """

    labels: tuple[str, ...]
    scores: Float[Tensor, "T T"]
    tiles: Tiles
    difference: float


def head_tiles(model: str, text: str, limit: int, layer: int, head: int, size: tuple[int, int]) -> HeadTiles:
    """Compute a head of a model tile by tile. In the compute thread.

    Args:
        model: Its name.
        text: What it reads.
        limit: How many tokens at most.
        layer: From 0.
        head: From 0.
        size: Queries and keys of a tile.
    """
    from attention_core import compute

    seen = compute._seen(model, text, limit)
    trace = seen.trace(layer, head)
    value = seen.layer(layer).value[seen.group(layer, head)].float()
    scores, value, allowed, context = (of.cpu() for of in (trace.final, value, trace.allowed, trace.context))
    found = tiles(scores, value, size, allowed)
    difference = float((found.context[-1] - context).abs().max())
    return HeadTiles(tuple(seen.labels()[0]), scores, found, difference)
