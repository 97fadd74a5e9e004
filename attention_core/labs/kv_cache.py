"""The KV cache: what is kept while a model writes, what it saves, and what sharing keys and values between heads costs.

A token's key and value never change once it has been read, since it can't see what comes later. So a model that writes
keeps them: each step computes the new token's, and looks at the kept ones. What grows instead is memory; grouped heads
(Ainslie et al. 2023) and one key-value head for all (Shazeer 2019) make it smaller.
"""

import itertools
import math
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attention_core import compute, generating
from attention_core.captured import capture
from attention_core.distance import js_distance
from attention_core.dot_product import trace_attention
from attention_core.generating import Guesses, Sampling, held_bytes, read_on
from attention_core.interface import Attended, LayerAttention, changing
from attention_core.models.loading import LoadedModel
from attention_core.store import Key

if TYPE_CHECKING:
    from attention_core.views import HeadView

PARAGRAPH = Path(__file__).parents[2] / "assets" / "perplexity.txt"
RACES = 8  # that are kept


class Shape(NamedTuple):
    """What the size of a cache depends on.

    Attributes:
        layers: How many layers attend.
        heads: Query heads of a layer.
        groups: Key-value heads of a layer; as many as query heads without sharing (MHA), 1 for MQA.
        size: Features of one head.
    """

    layers: int
    heads: int
    groups: int
    size: int


class Named(NamedTuple):
    """A real model: its title, its shape, the longest text that it was made for, and bytes per number as published."""

    title: str
    shape: Shape
    tokens: int
    bytes: int


# As in the models' published configurations.
NAMED = {
    "smollm2": Named("SmolLM2-135M", Shape(30, 9, 3, 64), 8192, 2),
    "gpt2": Named("GPT-2", Shape(12, 12, 12, 64), 1024, 4),
    "llama2_7b": Named("Llama-2-7B", Shape(32, 32, 32, 128), 4096, 2),
    "mistral_7b": Named("Mistral-7B", Shape(32, 32, 8, 128), 4096, 2),
    "llama2_70b": Named("Llama-2-70B", Shape(80, 64, 8, 128), 4096, 2),
}


class Work(NamedTuple):
    """Multiplications of numbers in one step, in products of matrices.

    Attributes:
        weights: Of the layers' weight matrices with the tokens that are read.
        attention: Q·Kᵀ and weights·V of all heads, each as the full square queries × keys.
        vocabulary: Of the last token's vector with the vocabulary.
    """

    weights: int
    attention: int
    vocabulary: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)


@dataclass(frozen=True)
class Lap:
    """One token of a race: its number in the vocabulary, and how long it took in seconds."""

    id: int
    seconds: float


@dataclass(frozen=True)
class PooledHead:
    """A head as it is, and after every layer's key-value heads were averaged into fewer.

    Attributes:
        own: The head as it is.
        pooled: The same head in the model with fewer.
        distances: The Jensen–Shannon distance of each row, its sink as a column of its own: 0 the same, 1 nothing in
            common.
    """

    own: "HeadView"
    pooled: "HeadView"
    distances: tuple[float, ...]


def cache_bytes(shape: Shape, tokens: int, number: int) -> int:
    """Return the size of a cache: 2 (keys and values) · layers · key-value heads · features · tokens · bytes a number.

    Source: the arithmetic of Pope et al. 2022, "Efficiently Scaling Transformer Inference", section 3.
    """
    return 2 * shape.layers * shape.groups * shape.size * tokens * number


class Holds(NamedTuple):
    """What a cache holds.

    Attributes:
        kept: How many tokens each layer keeps; a local one no more than it can still look at.
        groups: Key-value heads of a layer.
        key: Features of a key.
        value: Features of a value.
        number: Bytes of a number.
        bytes: How much memory its tensors take.
    """

    kept: tuple[int, ...]
    groups: int
    key: int
    value: int
    number: int
    bytes: int

    @property
    def expected(self) -> int:
        """What the arithmetic says: tokens kept in all layers · key-value heads · (key + value) · bytes of a number."""
        return sum(self.kept) * self.groups * (self.key + self.value) * self.number


class Cost(NamedTuple):
    """What a step of a writing costs.

    Attributes:
        cached: Multiplications with the cache, for the newest token; None where they can't be counted.
        alone: Without it: all tokens are read again.
        holds: What the cache then holds; None where that can't be told.
    """

    cached: Work | None
    alone: Work | None
    holds: Holds | None


def shape_of(model: LoadedModel) -> Shape:
    """Return the shape of a model in memory: of the layers that attend, as one token goes through them, once."""
    if model.module not in _shapes:
        _shapes[model.module] = _shape_of(model)
    return _shapes[model.module]


_shapes: WeakKeyDictionary[nn.Module, Shape] = WeakKeyDictionary()


def _shape_of(model: LoadedModel) -> Shape:
    given = torch.zeros(1, 1, dtype=torch.long, device=model.module.device)
    layers = capture(model.module, input_ids=given)._layers(None)
    first, config = layers[0], model.module.config
    if isinstance(first, LayerAttention):
        return Shape(len(layers), first.heads, len(first.key), first.key.shape[-1])
    groups = getattr(config, "num_key_value_heads", None) or first.heads
    return Shape(len(layers), first.heads, groups, config.hidden_size // first.heads)


def holds(cache: Any, tokens: int) -> Holds | None:  # noqa: ANN401
    """Return what a model's cache holds, or held when it had read so many tokens; None for one with no such layers."""
    layers = [layer for layer in getattr(cache, "layers", []) if getattr(layer, "keys", None) is not None]
    if not layers:
        return None
    kept = [
        min(tokens, layer.sliding_window - 1) if getattr(layer, "is_sliding", False) else tokens for layer in layers
    ]
    tensors = [t[..., :n, :] for layer, n in zip(layers, kept, strict=True) for t in (layer.keys, layer.values)]
    key, value = tensors[:2]
    size = sum(t.numel() * t.element_size() for t in tensors)
    return Holds(tuple(kept), key.shape[1], key.shape[-1], value.shape[-1], key.element_size(), size)


def divisors(number: int) -> list[int]:
    """Return what divides a number, itself first."""
    return [n for n in range(number, 0, -1) if number % n == 0]


def tokens_computed(prompt: int, steps: int, *, cached: bool) -> int:
    """Return of how many tokens K and V have been computed when the prompt and ``steps`` new tokens are read.

    With a cache of each once; without one, at every step of all that are there: prompt + (prompt + 1) + …
    """
    return prompt + steps if cached else sum(prompt + n for n in range(steps + 1))


def multiplications(model: LoadedModel, read: int, seen: Sequence[int]) -> Work | None:
    """Return how many numbers are multiplied when ``read`` tokens are read that meet ``seen`` keys in each layer.

    With a cache a step reads 1 token and sees all; without one it reads all. Only the last token's vector meets the
    vocabulary. Not counted is what grows with the vectors alone: norms, rotations, activation functions.

    Args:
        model: What reads.
        read: How many tokens go through the layers.
        seen: How many keys their queries meet, in each layer that attends.

    Returns:
        None for a model with experts, in which not every weight meets every token.
    """
    module, shape = model.module, shape_of(model)
    parts = [part for part in module.base_model.modules() if not isinstance(part, nn.Conv1d)]
    if any(weights.ndim > 2 for part in parts for weights in part.parameters(recurse=False)):
        return None
    matrices = [part.weight for part in parts if type(part).__name__ in ("Linear", "Conv1D")]
    vocabulary = module.get_output_embeddings().weight.numel()
    attention = 2 * shape.heads * shape.size * read * sum(seen)
    return Work(read * sum(weights.numel() for weights in matrices), attention, vocabulary)


def pooled_heads(heads: Float[Tensor, "B G K D"], groups: int) -> Float[Tensor, "B g K D"]:
    """Return the means of neighbouring key-value heads, as many as ``groups``.

    The mean of projections is the projection by the mean of the weights (Ainslie et al. 2023, section 2.1), and RoPE
    turns a mean as it turns its parts: so this is what averaged weights would give. (Not so where keys are normalised
    after the projection, as in Qwen 3; there it is the mean of what is normalised.)

    Raises:
        ValueError: If the heads do not divide evenly.
    """
    there = heads.shape[1]
    if groups < 1 or there % groups:
        raise ValueError(f"{there} key-value heads can't be averaged into {groups} evenly")
    return heads.unflatten(1, (groups, there // groups)).mean(dim=2)


@contextmanager
def pooling(model: LoadedModel, groups: int, kept: dict[int, Any] | None = None) -> Iterator[None]:
    """Average every layer's key-value heads into fewer, in every forward pass inside the block; no weight is touched.

    Args:
        model: What reads.
        groups: How many key-value heads are left.
        kept: Gets the weights of all heads, (B, H, Q, K + 1), for the layers that it has as keys: the share of the
            sink comes last.
    """
    layers = itertools.cycle(range(shape_of(model).layers))

    def change(seen: Attended, output: Tensor) -> Tensor:
        layer = next(layers)
        keys, values = pooled_heads(seen.key, groups), pooled_heads(seen.value, groups)
        traces = [
            trace_attention(query, key, value, seen.formula(n))
            for n, (query, key, value) in enumerate(zip(seen.query, keys, values, strict=True))
        ]
        if kept is not None and layer in kept:
            kept[layer] = torch.stack([torch.cat([t.weights, t.sink[..., None]], dim=-1) for t in traces])
        return torch.stack([trace.context.transpose(0, 1) for trace in traces]).to(output.dtype)

    with changing(model.module, change):
        yield


def perplexity(probabilities: Sequence[float]) -> float:
    """Return exp of the mean of −log p: among how many equally likely tokens the model hesitates, on average."""
    return math.exp(-sum(math.log(max(p, 1e-300)) for p in probabilities) / len(probabilities))


# What pages ask for, in the compute thread


def shape_named(model: str) -> tuple[Shape, int]:
    """Return a model's shape, and how many bytes a number has in its memory here."""
    loaded = compute._model(model)
    return shape_of(loaded), next(loaded.module.parameters()).element_size()


def cost_at(model: str, text: str, limit: int, sampling: Sampling, number: int) -> Cost | None:
    """Return what a step costs; None where it is not there yet, as in :func:`attention_core.generating.advance`."""
    if generating.advance(model, text, limit, sampling, number) is None:
        return None
    writing = generating._writing(model, text, limit, sampling)
    writing.wake()
    tokens, layers = len(writing.prompt) + number, shape_of(writing.model).layers
    before = holds(writing.cache, tokens - 1)
    seen = [tokens] * layers if before is None else [kept + 1 for kept in before.kept]
    cached, alone = (multiplications(writing.model, *of) for of in ((1, seen), (tokens, [tokens] * layers)))
    return Cost(cached, alone, holds(writing.cache, tokens))


def room(model: str, tokens: int, most: int) -> int:
    """Return how many tokens, at most ``most``, a model can write after so many before its context is full."""
    limit = compute._model(model).limit
    return most if limit is None else max(1, min(most, limit - tokens + 1))


def lap(model: str, text: str, limit: int, cached: bool, number: int) -> Lap | None:
    """Return a token of a race that writes greedily with or without a cache; None where one more was computed."""
    ids, laps, state = _race(model, text, limit, cached)
    if number >= len(laps):
        loaded = compute._model(model)
        if cached and laps and state["cache"] is None:  # what was kept has left the store
            state["cache"] = read_on(loaded, ids[:-1])[1]
        start = time.perf_counter()
        read = ids[-1:] if state["cache"] is not None else ids
        logits, state["cache"] = read_on(loaded, read, state["cache"], keep=cached)
        found = int(logits.argmax())
        laps.append(Lap(found, time.perf_counter() - start))
        ids.append(found)
        if cached:
            key, device = _key(model, text, limit), str(loaded.module.device)
            compute._keep(key, state, held_bytes(state["cache"]), device, lambda: state.update(cache=None))
    return laps[number] if number < len(laps) else None


def paragraph(model: str, groups: int) -> Guesses:
    """Return the paragraph in ``assets``, to be read in pieces with ``groups`` key-value heads."""
    loaded = compute._model(model)
    ids = loaded.tokenizer(PARAGRAPH.read_text(encoding="utf-8").strip())["input_ids"]
    return Guesses(loaded, ids, nullcontext if groups == shape_of(loaded).groups else partial(pooling, loaded, groups))


def paragraph_perplexity(read: Guesses) -> tuple[float, int]:
    """Return the perplexity of the paragraph once it has been read, and its tokens."""
    return perplexity(read.found), len(read.ids)


@torch.no_grad()
def pooled_head(
    model: str, text: str, limit: int, sampling: Sampling, number: int, layer: int, head: int, groups: int
) -> PooledHead | None:
    """Return a head (from 0) of the text at a step, as it is and with fewer key-value heads in every layer."""
    from attention_core.views import view_head, view_map

    if generating.advance(model, text, limit, sampling, number) is None:
        return None
    writing = generating._writing(model, text, limit, sampling)
    ids, seen = writing._ids(number), writing.seen(number)
    kept: dict[int, Any] = {layer: None}
    with pooling(writing.model, groups, kept):
        given = torch.tensor([ids], device=writing.model.module.device)
        writing.model.module.base_model(input_ids=given, use_cache=False)
    own, rows = view_head(seen, layer, head), kept[layer][0, head]
    all_of_it = np.column_stack([own.weights, own.sink]).astype(float)
    distances = js_distance(all_of_it, rows.double().numpy(force=True))
    pooled = view_map(seen, rows[:, :-1], sink=rows[:, -1])
    return PooledHead(own, pooled, tuple(float(d) for d in distances))


_races: "OrderedDict[tuple[str, str, int, bool], tuple[list[int], list[Lap], dict[str, Any]]]" = OrderedDict()


def _race(model: str, text: str, limit: int, cached: bool) -> tuple[list[int], list[Lap], dict[str, Any]]:
    key = (model, text, limit, cached)
    if key not in _races:
        start = generating._writing(model, text, limit, Sampling())
        _races[key] = [token.id for token in start.prompt], [], {"cache": None}
    _races.move_to_end(key)
    while len(_races) > RACES:
        gone = _key(*_races.popitem(last=False)[0][:3])
        compute._store.drop(gone.__eq__)
    return _races[key]


def _key(model: str, text: str, limit: int) -> Key:
    return Key(model, text, what=("race", limit))
