"""Patterns: which few keys a query may look at, and how many layers news then needs.

Sources: Longformer (Beltagy et al. 2020), BigBird (Zaheer et al. 2020), Sparse Transformer (Child et al. 2019).
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from attention_core import compute
from attention_core.dot_product import softmax

PATTERNS = ("window", "bigbird", "strided", "dilated", "blocks")
GLOBAL, RANDOM = 1, 2  # BigBird: words that look at all and are looked at by all; random keys of each query


def pattern(kind: str, length: int, number: int, seed: int = 0) -> Bool[Tensor, "T T"]:
    """Return where queries (rows) may look at keys (columns), both ways.

    Args:
        kind: One of ``PATTERNS``: "window": up to ``number`` words away; "bigbird": a window, the first word with all,
            and random keys; "strided": the last ``number`` words and every ``number``-th one before; "dilated": every
            other word up to 2·``number`` away; "blocks": words of the same block of ``number``.
        length: Of the text.
        number: See there; at least 0, and 1 for "strided" and "blocks".
        seed: Of the random keys.
    """
    place = torch.arange(length)
    far = place[:, None] - place[None]
    if kind == "window":
        return far.abs() <= number
    if kind == "dilated":
        return (far.abs() <= 2 * number) & (far % 2 == 0)
    if kind == "strided":
        return ((far >= 0) & (far < number)) | ((far >= 0) & (far % number == 0))
    if kind == "blocks":
        return place[:, None] // number == place[None] // number
    seen = far.abs() <= number
    seen[:GLOBAL] = seen[:, :GLOBAL] = True
    draw = torch.Generator().manual_seed(seed)
    return seen.scatter(1, torch.rand(length, length, generator=draw).argsort(dim=1)[:, :RANDOM], True)


def masked(scores: Float[Tensor, "T T"], allowed: Bool[Tensor, "T T"]) -> Float[Tensor, "T T"]:
    """Return the softmax over the keys that are allowed; a row without any is zero."""
    weights, _ = softmax(scores[None], allowed[None])
    return weights[0]


def reach(allowed: Bool[Tensor, "T T"], most: int = 3) -> Int[Tensor, "T T"]:
    """Return after how many layers a query (row) can know of a key (column): 1 to ``most``, 0 if it takes more.

    A word keeps what it knows from layer to layer, as by a residual connection.
    """
    step = allowed | torch.eye(len(allowed), dtype=torch.bool)
    known, layers = torch.eye(len(allowed), dtype=torch.bool), torch.zeros(len(allowed), len(allowed), dtype=torch.long)
    for layer in range(1, most + 1):
        known = (step.float() @ known.float()) > 0
        layers = torch.where(known & (layers == 0), layer, layers)
    return layers


def longest_path(allowed: Bool[Tensor, "T T"]) -> int | None:
    """Return how many layers the farthest pair needs; None if some word never hears of another."""
    step = (allowed | torch.eye(len(allowed), dtype=torch.bool)).float()
    known, layers = torch.eye(len(allowed)), 0
    while not bool(known.all()):
        grown = ((step @ known) > 0).float()
        if torch.equal(grown, known):
            return None
        known, layers = grown, layers + 1
    return layers


@dataclass(frozen=True)
class Painted:
    """A pattern between the first S tokens of a sentence, as somebody painted it.

    Attributes:
        allowed: Where it looks.
        reach: As in :func:`reach`.
        path: As in :func:`longest_path`.
        error: Of the context of these tokens; the others look at everything, and everything at them.
    """

    allowed: Bool[ndarray, "S S"]
    reach: Int[ndarray, "S S"]
    path: int | None
    error: float


def painted(model: str, text: str, limit: int, layer: int, head: int, bits: str) -> Painted:
    """Compute what a painted pattern does to a head of a model, whose own formula is plain.

    Args:
        model: Its name.
        text: What it reads.
        limit: How many tokens at most.
        layer: From 0.
        head: From 0.
        bits: The cells, row by row, "0" or "1": S · S of them.
    """
    size = math.isqrt(len(bits))
    allowed = torch.tensor([bit == "1" for bit in bits]).view(size, size)
    seen = compute._seen(model, text, limit)
    trace, value = seen.trace(layer, head), seen.layer(layer).value[seen.group(layer, head)].float().cpu()
    scores, context = trace.final.cpu(), trace.context.cpu()
    whole = torch.ones(len(value), len(value), dtype=torch.bool)
    whole[:size, :size] = allowed
    off = (masked(scores, whole) @ value - context)[:size]
    error = float(off.norm() / context[:size].norm())
    return Painted(allowed.numpy(), reach(allowed).numpy(), longest_path(allowed), error)
