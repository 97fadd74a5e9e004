"""Words, sentences and tiles: a group of keys gets the sum of its weights, a group of queries the mean of its rows.

So rows still sum to 1. Groups are runs of neighbouring positions, written as one number a position: 0, 0, 1, 2, 2 …
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_core.dot_product import scores
from attention_core.formula import Formula

QUERY_BLOCK, KEY_BLOCK = 256, 1024  # a block of scores stays in the processor's cache (a megabyte)


def tiles(positions: int, count: int) -> Int[Tensor, " T"]:
    """Cut positions into at most ``count`` tiles of the same size; the last may be smaller."""
    size = -(-positions // count)
    return torch.arange(positions) // size


def group_weights(
    weights: Float[Tensor, "Q K"], queries: Int[Tensor, " Q"], keys: Int[Tensor, " K"]
) -> Float[Tensor, "A B"]:
    """Group weights that are already there: sum over the keys of a group, mean over its queries."""
    return _mean_rows(_sum_columns(weights, keys), queries)


def grouped_attention(
    query: Float[Tensor, "1 Q D"],
    key: Float[Tensor, "1 K D"],
    formula: Formula,
    queries: Int[Tensor, " Q"],
    keys: Int[Tensor, " K"],
) -> tuple[Float[Tensor, "A B"], Float[Tensor, " A"]]:
    """Compute one head's grouped weights without ever holding queries × keys.

    Each block of scores meets its row's largest score so far; when a larger one comes, what was summed before is scaled
    down to it. The result is exact.

    Args:
        query: Queries of one head.
        key: Keys of one head.
        formula: The head's own formula.
        queries: The group of each query, as written above.
        keys: The group of each key.

    Returns:
        The grouped weights, and the mean share of the sink in each group of queries.

    Source: the running maximum and sum of Dao et al. 2022 (FlashAttention), applied to sums over groups.
    """
    positions, others = query.shape[1], key.shape[1]
    add = _equal_tiles(keys, range(others)) or _Runs(keys.to(query.device))
    rows = []
    for start in range(0, positions, QUERY_BLOCK * _more(query)):
        block = range(start, min(start + QUERY_BLOCK * _more(query), positions))
        rows.append(_rows(query, key, formula, block, add))
    sums, sinks = (torch.cat(parts) for parts in zip(*rows, strict=True))
    queries = queries.to(query.device)
    return _mean_rows(sums, queries), _mean_rows(sinks[:, None], queries)[:, 0]


def region_attention(
    query: Float[Tensor, "1 Q D"],
    key: Float[Tensor, "1 K D"],
    formula: Formula,
    rows: range,
    columns: range,
    sizes: tuple[int, int],
) -> tuple[Float[Tensor, "A B"], Float[Tensor, " A"]]:
    """Compute one head's weights between tiles of a region: some queries and some keys of a long text.

    The weights are those of the whole text, normalised over all keys, whether they lie in the region or not. So a row
    sums to what of its weight the region holds, and a map of all keys sums to 1 a row.

    Args:
        query: Queries of one head, all of them.
        key: Keys of one head, all of them.
        formula: The head's own formula.
        rows: The queries of the region.
        columns: The keys of the region.
        sizes: How many queries and how many keys are one tile; the last tile of a side may be smaller.

    Returns:
        The weights between tiles, and the mean share of the sink in each tile of queries.
    """
    add = _Tiles(columns, sizes[1])
    sums, sinks = [], []
    step = max(1, QUERY_BLOCK * _more(query) // sizes[0]) * sizes[0]  # blocks of whole tiles, or a tile in blocks
    for start in range(rows.start, rows.stop, step):
        block = range(start, min(start + step, rows.stop))
        pieces = [block[n : n + QUERY_BLOCK * _more(query)] for n in range(0, len(block), QUERY_BLOCK * _more(query))]
        found = [_rows(query, key, formula, piece, add) for piece in pieces]
        one, two = (torch.cat(parts) for parts in zip(*found, strict=True))
        numbers = torch.arange(len(block), device=query.device) // sizes[0]
        sums.append(_mean_rows(one, numbers))
        sinks.append(_mean_rows(two[:, None], numbers)[:, 0])
    return torch.cat(sums), torch.cat(sinks)


class _Tiles:
    """Adds up tiles of the same size in some columns; what is outside them only counts for the rows' sums."""

    def __init__(self, columns: range, size: int) -> None:
        self.columns, self.size = columns, size
        self.groups = -(-len(columns) // size)

    def spans(self, others: int, most: int) -> Iterator[range]:
        """Cut all keys into spans: outside the columns, or whole tiles, or inside one tile."""
        low, high = (min(end, others) for end in (self.columns.start, self.columns.stop))
        step = max(1, most // self.size) * self.size
        for start in range(0, low, most):
            yield range(start, min(start + most, low))
        for first in range(low, high, step):
            last = min(first + step, high)
            for start in range(first, last, most):
                yield range(start, min(start + most, last))
        for start in range(high, others, most):
            yield range(start, min(start + most, others))

    def __call__(self, sums: Float[Tensor, "q B"], shares: Float[Tensor, "q k"], span: range) -> Tensor | None:
        """Add a block's shares to the sums of its tiles; return what none of them is for."""
        if span.start not in self.columns:
            return shares.sum(dim=-1, keepdim=True)
        tile, whole = (span.start - self.columns.start) // self.size, len(span) // self.size
        if whole:
            inside = shares[:, : whole * self.size].unflatten(1, (whole, self.size))
            sums[:, tile : tile + whole] += inside @ inside.new_ones(self.size)  # faster than a sum
        if len(span) > whole * self.size:
            sums[:, tile + whole] += shares[:, whole * self.size :].sum(dim=-1)
        return None


class _Runs:
    """Adds up groups of any sizes, such as words."""

    def __init__(self, numbers: Int[Tensor, " K"]) -> None:
        self.numbers, self.groups = numbers, int(numbers[-1]) + 1

    def spans(self, others: int, most: int) -> Iterator[range]:
        """Cut all keys into spans."""
        return (range(start, min(start + most, others)) for start in range(0, others, most))

    def __call__(self, sums: Float[Tensor, "q B"], shares: Float[Tensor, "q k"], span: range) -> None:
        """Add a block's shares to the sums of its groups."""
        sums.index_add_(1, self.numbers[span.start : span.stop], shares)


def _equal_tiles(keys: Int[Tensor, " K"], columns: range) -> _Tiles | None:
    """Return the tiles, where groups are tiles of the same size: their sums need no list of places."""
    size = int((keys == 0).sum())
    same = torch.equal(keys.cpu(), torch.arange(len(keys)) // max(size, 1))
    return _Tiles(columns, size) if same else None


def _more(query: Tensor) -> int:
    """Return how many times larger blocks are where no cache has to hold them, and each step costs a launch."""
    return 8 if query.is_cuda else 1


def _rows(
    query: Float[Tensor, "1 Q D"], key: Float[Tensor, "1 K D"], formula: Formula, block: range, add: _Tiles | _Runs
) -> tuple[Float[Tensor, "q B"], Float[Tensor, " q"]]:
    precise = torch.promote_types(query.dtype, torch.float32)
    shape, device = (len(block), 1), query.device
    largest = torch.full(shape, -torch.inf, dtype=precise, device=device)
    sink_sum, outside = torch.zeros(shape, dtype=precise, device=device), 0.0
    if (sink := formula.term("sink")) is not None:
        largest, sink_sum = torch.full_like(largest, sink.item()), sink_sum + 1
    sums = torch.zeros(len(block), add.groups, dtype=precise, device=device)
    for span, final in _scores(query.to(precise), key, formula, block, add):
        higher = torch.maximum(largest, final.amax(dim=-1, keepdim=True))
        safe = higher.masked_fill(higher == -torch.inf, 0.0)  # a row that has seen nothing yet
        shrink = (largest - safe).exp()
        sums *= shrink
        sink_sum *= shrink
        outside *= shrink
        if (rest := add(sums, final.sub_(safe).exp_(), span)) is not None:
            outside += rest
        largest = higher
    total = sums.sum(dim=-1, keepdim=True) + sink_sum + outside
    total = total.masked_fill(total == 0, 1.0)  # nothing allowed: the row stays zero
    return sums / total, (sink_sum / total)[:, 0]


def _scores(
    query: Float[Tensor, "1 Q D"], key: Float[Tensor, "1 K D"], formula: Formula, block: range, add: _Tiles | _Runs
) -> Iterator[tuple[range, Float[Tensor, "q k"]]]:
    """Give the scores that enter the softmax, −∞ where a query may not look; blocks that can't be seen are left out.

    A block may be written over as soon as it has been used: the next one takes its place in the cache.
    """
    some = query[:, block.start : block.stop]
    factor = formula.multiplier(query.shape[-1])
    others = any(formula.term(name) is not None for name in ("softcap", "bias", "allowed"))
    plain = not others and formula.temperature == 1 and not isinstance(factor, Tensor)
    ready = (some[0] * factor).contiguous() if plain else some
    room = query.new_empty(len(block) * KEY_BLOCK * _more(query))
    last = block.stop if formula.term("causal") else key.shape[1]
    for span in add.spans(min(key.shape[1], last), KEY_BLOCK * _more(query)):
        if not formula.sees(block, span):
            continue
        part = key[:, span.start : span.stop].to(query.dtype)
        if not plain:
            _, scaled, steps, allowed = scores(ready, part, formula.block(block, span, query.device))
            yield span, (steps[-1].scores if steps else scaled)[0].masked_fill(~allowed[0], -torch.inf)
            continue
        final = room[: len(block) * len(span)].view(len(block), len(span))
        torch.mm(ready, part[0].mT, out=final)
        if not formula.sees_all(block, span):  # a mask only where its edge runs
            for n in range(0, len(span), len(block)):
                if not formula.sees_all(block, edge := span[n : n + len(block)]):
                    closed = ~formula.block(block, edge, query.device).allowed[0]
                    final[:, n : n + len(edge)].masked_fill_(closed, -torch.inf)
        yield span, final


def _sum_columns(weights: Float[Tensor, "Q K"], keys: Int[Tensor, " K"]) -> Float[Tensor, "Q B"]:
    return weights.new_zeros(len(weights), int(keys[-1]) + 1).index_add_(1, keys.to(weights.device), weights)


def _mean_rows(rows: Float[Tensor, "Q B"], queries: Int[Tensor, " Q"]) -> Float[Tensor, "A B"]:
    counts = queries.bincount().to(rows)
    return rows.new_zeros(len(counts), rows.shape[1]).index_add_(0, queries.to(rows.device), rows) / counts[:, None]
