"""Many heads: h small attentions side by side, their contexts joined, and W_O; and what real heads look at.

Source: Vaswani et al. 2017, section 3.2.2: MultiHead = Concat(head_1 … head_h)·W_O, each head of size d_model / h.
"""

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attention_core import compute
from attention_core.dot_product import AttentionTrace, trace_attention
from attention_core.heads import (
    Finding,
    Marked,
    find_head,
    looks_back,
    marked,
    pair_hits,
    pair_weights,
    pairs_of,
    places,
)
from attention_core.relations import MARKED, PLACES, RELATIONS, sentences
from attention_core.tokens import clean, visible, word_starts

MOST_WORDS = 12
BASE = (8, 64)  # heads of the original base model, and the size of one
SHARP = 1.3  # random queries and keys are this much larger than those of variance 1, so that the maps are not all grey


class Edit(NamedTuple):
    """One changed number: of X, W_Q, W_K, W_V or W_O ("x", "q", "k", "v", "o"); head, row and column from 0."""

    matrix: str
    head: int
    row: int
    column: int
    value: float


@dataclass(frozen=True)
class World:
    """A layer of h heads with made-up numbers, every intermediate kept. N heads of size D, T words, M = N·D.

    Attributes:
        words: The words it was run on.
        x: The words' embeddings.
        query: W_Q of each head.
        key: W_K of each head.
        value: W_V of each head.
        out: W_O.
        values: What each word hands over in each head, x·W_V.
        trace: Weights and context of each head.
        joined: The heads' contexts side by side.
        parts: What each head adds to the output: its block of ``joined`` times its rows of W_O.
        output: joined·W_O, which is the sum of ``parts`` over the heads.
    """

    words: tuple[str, ...]
    x: Float[Tensor, "T M"]
    query: Float[Tensor, "N M D"]
    key: Float[Tensor, "N M D"]
    value: Float[Tensor, "N M D"]
    out: Float[Tensor, "M M"]
    values: Float[Tensor, "N T D"]
    trace: AttentionTrace
    joined: Float[Tensor, "T M"]
    parts: Float[Tensor, "T N M"]
    output: Float[Tensor, "T M"]


def world_words(text: str) -> tuple[tuple[str, ...], int]:
    """Return a text's first ``MOST_WORDS`` words and how many there are; without any, what stands between spaces."""
    text = clean(text)
    words: dict[int, str] = {}
    for number, letter in zip(word_starts(text), text, strict=True):
        words[number] = words.get(number, "") + letter
    found = [w for w in words.values() if any(c.isalnum() for c in w)] or text.split()
    return tuple(visible(word) for word in found[:MOST_WORDS]), len(found)


def small_world(
    words: tuple[str, ...],
    heads: int,
    size: int,
    seed: int = 1,
    *,
    alike: bool = False,
    edits: Collection[Edit] = (),
) -> World:
    """Make a layer of random numbers and run it on some words.

    Equal words get equal embeddings, and there are no positions: a word's numbers do not depend on its neighbours.

    Args:
        words: The sentence.
        heads: h.
        size: dₖ = d_v, the size of one head; d_model is heads · size.
        seed: The draw.
        alike: Whether all heads get the first head's matrices.
        edits: Numbers that a learner has changed; those that have no place here are left out.

    Raises:
        ValueError: If there is no word, or no head, or a head without numbers.
    """
    if not words or heads < 1 or size < 1:
        raise ValueError(f"there must be a word, a head and a number, not {len(words)}, {heads} and {size}")
    width = heads * size
    x = torch.stack([_normal(seed, zlib.crc32(word.lower().encode("utf-8", "replace")), 1, width)[0] for word in words])
    query, key, value = (
        torch.stack([_normal(seed, 3 * (0 if alike else head) + kind, width, size) for head in range(heads)])
        for kind in range(3)
    )
    query, key, value = (w / width**0.5 for w in (query * SHARP, key * SHARP, value))
    out = _normal(seed, -1, width, width) / width**0.5
    places = {"x": x[None], "q": query, "k": key, "v": value, "o": out[None]}
    for edit in edits:
        matrix = places[edit.matrix]
        if all(0 <= at < most for at, most in zip(edit[1:4], matrix.shape, strict=True)):
            matrix[edit.head, edit.row, edit.column] = edit.value
    return world_of(words, x, query, key, value, out)


def world_of(
    words: tuple[str, ...],
    x: Float[Tensor, "T M"],
    query: Float[Tensor, "N M D"],
    key: Float[Tensor, "N M D"],
    value: Float[Tensor, "N M D"],
    out: Float[Tensor, "M M"],
) -> World:
    """Run a layer of many heads with given matrices."""
    values = x @ value
    trace = trace_attention(x @ query, x @ key, values)
    blocks = out.reshape(len(query), -1, out.shape[1])
    joined = trace.context.transpose(0, 1).flatten(1)
    parts = (trace.context @ blocks).transpose(0, 1)
    return World(words, x, query, key, value, out, values, trace, joined, parts, joined @ out)


def sentence_marks(model: str, text: str, limit: int) -> tuple[dict[str, Marked], bool, int]:
    """Read one of the marked sentences and collect what all heads do with its pairs. In the compute thread.

    Returns:
        By relation; whether the model only looks back; and how many heads a layer has.
    """
    seen = compute._seen(model, text, limit)
    found = {}
    for relation in RELATIONS:
        sentence = next((s for s in sentences(relation) if s.text == text), None)
        if sentence is not None:
            found[relation] = marked(seen, pairs_of(seen, relation, sentence.query, sentence.key))
    return found, looks_back(seen), seen.heads


@dataclass(frozen=True)
class Relation:
    """What was found for one relation, and what each sentence alone says. Layers and heads count from 0.

    Attributes:
        finding: The best head over all sentences.
        hits: For each sentence, whether that head's largest weight is on the marked word, in all rows.
        alone: For each sentence, the best head if there were no other sentence: layer, head and weight.
    """

    finding: Finding
    hits: tuple[bool, ...]
    alone: tuple[tuple[int, int, float], ...]


def relation_head(relation: str, marks: list[Marked], heads: int) -> Relation:
    """Find the best head of one relation. In the compute thread."""
    found = find_head(marks, heads, by_distance=relation in PLACES)
    place = found.layer * heads + found.head
    hits = tuple(float(pair_hits([mark])[place]) == 1 for mark in marks)
    return Relation(found, hits, tuple(best_alone(mark, heads) for mark in marks))


def best_alone(mark: Marked, heads: int) -> tuple[int, int, float]:
    """Return the head that looks most from query to key in one sentence alone, and its weight there."""
    weights = pair_weights([mark])
    best = int(weights.argmax())
    return best // heads, best % heads, float(weights[best])


def marked_words(model: str, text: str, relation: str, query: int, key: int, limit: int) -> tuple[int, int]:
    """Return the words, special tokens counted, that are marked in a sentence. In the compute thread.

    For relations without marks it is the word at ``query`` and the one before it, or the first.
    """
    seen = compute._seen(model, text, limit)
    if relation in MARKED:
        return pairs_of(seen, relation, query, key)[0]
    word = places(seen)[query]
    return next(pair for pair in pairs_of(seen, relation) if pair[0] == word)


def _normal(seed: int, what: int, rows: int, columns: int) -> Float[Tensor, "R C"]:
    draw = torch.Generator().manual_seed((seed * 1_000_003 + what) % 2**63)
    return torch.randn(rows, columns, generator=draw)
