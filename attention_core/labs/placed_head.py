"""One real head that is told where words are in ways of our choosing, or not at all.

The head is one of MiniLM's first layer: its own words, W_Q, W_K and W_V. With "learned" positions it is the model's own
head, number for number. All torch work belongs in the compute thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

from attention_core import compute
from attention_core.dot_product import trace_attention
from attention_core.formula import Formula
from attention_core.labs import length
from attention_core.labs.positions import CLIP, buckets, clipped, distances, rotated, sinusoidal, slopes, turned_score

MODEL = "minilm"
SEED = 11  # of Shaw's vectors, which no model here has learned


@dataclass(frozen=True)
class PlacedHead:
    """What the head does with the words in some order. T tokens, of which the first and the last are the model's own.

    Attributes:
        labels: The tokens in this order.
        order: Which token of the sentence stands at each place.
        scores: What enters the softmax.
        weights: Each row sums to 1.
        context: What each token takes along.
    """

    labels: tuple[str, ...]
    order: tuple[int, ...]
    scores: Float[ndarray, "T T"]
    weights: Float[ndarray, "T T"]
    context: Float[ndarray, "T D"]


def placed_head(text: str, limit: int, head: int, kind: str, order: Sequence[int] = ()) -> PlacedHead:
    """Compute the head.

    Args:
        text: A sentence.
        limit: How many tokens at most.
        head: From 0.
        kind: How it is told where words are: one of ``positions.KINDS``.
        order: Which token stands at each place, all of them from 0; the sentence's own order where it is empty.
    """
    seen = compute._seen(MODEL, text, limit)
    order = tuple(order) or tuple(range(len(seen.tokens)))
    module = compute._model(MODEL).module.base_model
    labels = seen.labels()[0]
    with torch.no_grad():
        words = _here(module.embeddings.word_embeddings.weight[[seen.tokens[n].id for n in order]])
        trace = _trace(module, words, head, kind)
    arrays = (trace.final[0], trace.weights[0], trace.context[0])
    return PlacedHead(tuple(labels[n] for n in order), order, *(_array(of) for of in arrays))


def moved(before: PlacedHead, after: PlacedHead) -> Float[ndarray, " T"]:
    """Return how far each token's context lies from what it was in the other order, in the order of ``before``."""
    place = np.argsort(after.order)
    return np.abs(after.context[place] - before.context[np.argsort(before.order)]).max(axis=1)


def shuffled(count: int, seed: int) -> tuple[int, ...]:
    """Return an order of so many tokens in which all but the first and the last are shuffled, and not as they were."""
    inner = np.arange(1, count - 1)
    if len(inner) < 2:
        return tuple(range(count))
    draw = np.random.default_rng(seed)
    mixed = draw.permutation(inner)
    while (mixed == inner).all():
        mixed = draw.permutation(inner)
    return (0, *mixed.tolist(), count - 1)


def table() -> Float[ndarray, "T T"]:
    """Return how alike MiniLM's 512 learned position vectors are: the cosine of each pair."""
    vectors = _here(compute._model(MODEL).module.base_model.embeddings.position_embeddings.weight)
    vectors = vectors / vectors.norm(dim=-1, keepdim=True)
    return _array(vectors @ vectors.T)


def picture(kind: str, head: int, count: int = 64) -> Float[ndarray, "M N"]:
    """Return what a way looks like: its vectors (sinusoidal), how alike they are (learned), else a number of each pair.

    The number is the distance that counts (Shaw), what is added to the score (T5, ALiBi), or the score of two vectors
    of ones, divided by what it is at no distance (RoPE). Of the 512 learned vectors every fourth is there.
    """
    if kind == "sinusoidal":
        return _array(sinusoidal(torch.arange(float(count)), count))
    if kind == "learned":
        return table()[::4, ::4]
    if kind == "shaw":
        return _array(clipped(distances(count)) - CLIP).astype(np.float32)
    if kind == "rope":
        _, values, _ = over_distance(kind, head, count)
        return values[distances(count).numpy() + count]
    return _array(bias(kind, count, head, torch.zeros(count, 1)))


def over_distance(
    kind: str, head: int, most: int = 64
) -> tuple[Int[ndarray, " N"], Float[ndarray, " N"], tuple[float, float]]:
    """Return distances from −most to most, a way's number at each, and the bounds between which numbers can lie.

    The number is the dot product of two position vectors, divided by that at no distance (sinusoidal), the mean cosine
    of all pairs at that distance (learned), else that of :func:`picture`.
    """
    far = torch.arange(-most, most + 1)
    bounds = (-1.0, 1.0)
    if kind == "sinusoidal":
        told = sinusoidal(far.float(), 384)
        values = told @ told[most] / (told[most] @ told[most])
    elif kind == "learned":
        values = torch.tensor([float(np.diagonal(table(), int(n)).mean()) for n in far])
    elif kind == "shaw":
        values, bounds = (clipped(far) - CLIP).float(), (-float(CLIP), float(CLIP))
    elif kind == "rope":
        ones = torch.ones(32)
        values = turned_score(ones, ones, far.float()) / 32
    else:
        values = bias(kind, 2 * most + 1, head, torch.zeros(2 * most + 1, 1))[most]
        bounds = (float(values.min()), float(values.max()))
    return far.numpy(), _array(values), bounds


def bias(kind: str, count: int, head: int, query: Tensor) -> Float[Tensor, "T T"] | None:
    """Return what is added to the scaled scores for where words are, where something is."""
    apart = distances(count)
    if kind == "shaw":
        vectors = _drawn(query.shape[-1])
        return (query @ vectors.T).gather(-1, clipped(apart)) / query.shape[-1] ** 0.5
    if kind == "t5":  # the biases that the small reader learned, mirrored: it looks back only
        return length.reader("t5").table.detach()[buckets(-apart.abs(), both=False), head % length.HEADS]
    if kind == "alibi":
        return -slopes(12)[head] * apart.abs()
    return None


def _trace(module: torch.nn.Module, words: Float[Tensor, "T W"], head: int, kind: str):  # noqa: ANN202
    own, attention = module.embeddings, module.encoder.layer[0].attention.self
    places = torch.arange(float(len(words)))
    x, learned = words + _here(own.token_type_embeddings.weight[0]), _here(own.position_embeddings.weight)
    if kind == "learned":
        x = x + learned[: len(words)]
    if kind == "sinusoidal":  # as long as the learned ones are, on average
        told = sinusoidal(places, words.shape[-1])
        x = x + told * (learned.norm(dim=-1).mean() / told.norm(dim=-1, keepdim=True))
    norm = own.LayerNorm
    x = functional.layer_norm(x, norm.normalized_shape, _here(norm.weight), _here(norm.bias), norm.eps)
    size = attention.attention_head_size
    part = slice(head * size, (head + 1) * size)
    query, key, value = (
        functional.linear(x, _here(of.weight[part]), _here(of.bias[part]))
        for of in (attention.query, attention.key, attention.value)
    )
    if kind == "rope":
        query, key = (rotated(of, places) for of in (query, key))
    added = bias(kind, len(words), head, query)
    formula = Formula() if added is None else Formula(bias=added[None])
    return trace_attention(query[None], key[None], value[None], formula)


def _here(weight: Tensor) -> Tensor:
    """Return a weight on the CPU in single precision, wherever and however the model is."""
    return weight.detach().to("cpu", torch.float32)


@cache
def _drawn(size: int) -> Float[Tensor, "C D"]:
    return torch.randn(2 * CLIP + 1, size, generator=torch.Generator().manual_seed(SEED))


def _array(tensor: Tensor) -> ndarray:
    array = tensor.detach().numpy(force=True)
    array.setflags(write=False)
    return array
