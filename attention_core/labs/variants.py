"""Beyond the square: what patterns and approximations make of a head, how far off they are, how long they take.

Sources: Linformer (Wang et al. 2020), linear attention (Katharopoulos et al. 2020), Performer (Choromanski et al.
2020), Reformer (Kitaev et al. 2020). All torch work belongs in the compute thread.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from attention_core.labs.patterns import PATTERNS, masked, pattern

APPROXIMATIONS = ("low_rank", "linear", "random_features", "lsh")
HASHES = 4  # rounds of LSH
ENOUGH = 0.05  # seconds


@dataclass(frozen=True)
class Variant:
    """What a way makes of one head.

    Attributes:
        exact: The weights of attention itself.
        weights: The weights it amounts to; each row sums to 1, or is zero where nothing is allowed. Of an approximation
            they are shown here only: it never writes them down.
        context: weights · V.
        allowed: Where it looks.
        error: The size of the difference from the exact context, divided by the size of that.
    """

    exact: Float[Tensor, "T T"]
    weights: Float[Tensor, "T T"]
    context: Float[Tensor, "T D"]
    allowed: Bool[Tensor, "T T"]
    error: float


def variant(
    kind: str,
    query: Float[Tensor, "T D"],
    key: Float[Tensor, "T D"],
    value: Float[Tensor, "T Dv"],
    factor: float,
    number: int,
    seed: int = 0,
) -> Variant:
    """Compute one way on a head's query, key and value.

    Args:
        kind: One of ``PATTERNS`` or ``APPROXIMATIONS``.
        query: Of the head.
        key: Of the head.
        value: Of the head.
        factor: What raw scores are multiplied by.
        number: A pattern's, the rank, the features, or the buckets.
        seed: Of what is drawn at random.
    """
    exact = (query @ key.T * factor).softmax(dim=-1)
    if kind in APPROXIMATIONS:
        weights = {"low_rank": _low_rank, "linear": _linear, "random_features": _random_features, "lsh": _lsh}[kind](
            query * factor**0.5, key * factor**0.5, number, seed
        )
        allowed = weights != 0 if kind == "lsh" else torch.ones_like(weights, dtype=torch.bool)
    else:
        allowed = pattern(kind, len(query), number, seed)
        weights = masked(query @ key.T * factor, allowed)
    right, found = exact @ value, weights @ value
    return Variant(exact, weights, found, allowed, float((found - right).norm() / right.norm()))


def _low_rank(query: Tensor, key: Tensor, rank: int, seed: int) -> Tensor:
    """Keep the ``rank`` largest singular values: no matrix of that rank is closer, whatever a Linformer learns."""
    left, values, right = torch.linalg.svd((query @ key.T).softmax(dim=-1))
    return left[:, :rank] * values[:rank] @ right[:rank]


def _linear(query: Tensor, key: Tensor, number: int, seed: int) -> Tensor:
    """φ(q)·φ(k) in place of exp(q·k), φ(x) = elu(x) + 1."""
    return _normed(functional.elu(query) + 1, functional.elu(key) + 1)


def _random_features(query: Tensor, key: Tensor, features: int, seed: int) -> Tensor:
    """exp(q·k) is the mean of φ(q)·φ(k) over random w: φ(x) = exp(w·x − |x|²/2), w from N(0, 1).

    Keys are taken from their mean, which changes no weight and makes them shorter.
    """
    key = key - key.mean(dim=0)
    w = torch.randn(features, query.shape[1], generator=torch.Generator().manual_seed(seed))
    one, two = (x @ w.T - x.square().sum(dim=1, keepdim=True) / 2 for x in (query, key))
    return _normed((one - one.amax(dim=1, keepdim=True)).exp(), (two - two.max()).exp())


def _lsh(query: Tensor, key: Tensor, buckets: int, seed: int) -> Tensor:
    """Look only at keys that fall into the query's bucket in one of some rounds: the nearest of random directions."""
    draw = torch.Generator().manual_seed(seed)
    allowed = torch.zeros(len(query), len(key), dtype=torch.bool)
    for _ in range(HASHES):
        w = torch.randn(query.shape[1], max(1, buckets // 2), generator=draw)
        one, two = (torch.cat([x @ w, -x @ w], dim=1).argmax(dim=1) for x in (query, key))
        allowed |= one[:, None] == two[None] if buckets > 1 else True
    return masked(query @ key.T, allowed)


def _normed(query: Tensor, key: Tensor) -> Tensor:
    weights = query @ key.T
    return weights / weights.sum(dim=1, keepdim=True).clamp(min=1e-30)


def seconds(kind: str, length: int, size: int, number: int) -> tuple[float, float]:
    """Time a way as it would be computed, and dense attention, on random numbers; the fastest of several runs.

    A pattern gathers each query's own keys; what has features multiplies keys and values first, φ(K)ᵀV; hashing sorts
    by bucket and attends within chunks.
    """
    q, k, v = torch.randn(3, length, size, generator=torch.Generator().manual_seed(1)).unbind()
    return _fastest(_quick(kind, q, k, v, number)), _fastest(lambda: (q @ k.T / size**0.5).softmax(dim=-1) @ v)


def _quick(kind: str, q: Tensor, k: Tensor, v: Tensor, number: int) -> Callable[[], Tensor]:
    size = q.shape[1] ** 0.5
    if kind in PATTERNS:
        allowed = pattern(kind, len(q), number)
        wide = allowed.all(dim=1)  # words that look at all
        few, most = ~wide, int(allowed[~wide].sum(dim=1).max()) if not wide.all() else 0
        keys = allowed[few].int().argsort(dim=1, descending=True, stable=True)[:, :most]
        closed = ~allowed[few].gather(1, keys)

        def gathered() -> Tensor:
            out = torch.empty_like(v)
            scores = (k[keys] @ q[few][:, :, None])[..., 0] / size
            out[few] = (scores.masked_fill(closed, -torch.inf).softmax(dim=-1)[:, None] @ v[keys])[:, 0]
            out[wide] = (q[wide] @ k.T / size).softmax(dim=-1) @ v
            return out

        return gathered
    if kind == "lsh":  # as a Reformer does: sorted by bucket, cut into as many chunks
        size_of, w = max(1, len(q) // number), torch.randn(HASHES, q.shape[1], max(1, number // 2))

        def sorted_into_chunks() -> Tensor:
            out = torch.zeros_like(v)
            for directions in w:
                one, two = (torch.cat([x @ directions, -x @ directions], dim=1).argmax(dim=1).argsort() for x in (q, k))
                for rows, keys in zip(one.split(size_of), two.split(size_of), strict=True):
                    out[rows] += (q[rows] @ k[keys].T / size).softmax(dim=-1) @ v[keys]
            return out / HASHES

        return sorted_into_chunks
    if kind == "low_rank":
        narrow = torch.randn(number, len(k)) / len(k) ** 0.5
        return lambda: (q @ (narrow @ k).T / size).softmax(dim=-1) @ (narrow @ v)
    w = torch.randn(q.shape[1], number)
    feature = {
        "linear": lambda x: functional.elu(x) + 1,
        "random_features": lambda x: (x @ w - x.square().sum(dim=1, keepdim=True) / 2).exp(),
    }[kind]

    def featured() -> Tensor:
        one, two = feature(q / size**0.5), feature(k / size**0.5)
        return one @ (two.T @ v) / (one @ two.sum(dim=0))[:, None]

    return featured


def _fastest(job: Callable[[], Tensor]) -> float:
    best, until = math.inf, time.perf_counter() + ENOUGH
    for turn in range(30):
        start = time.perf_counter()
        job()
        now = time.perf_counter()
        best = min(best, now - start) if turn else best  # the first for nothing
        if turn and now > until:
            break
    return best
