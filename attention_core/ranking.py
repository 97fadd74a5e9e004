"""Every head ranked by how much it looks from one word to another, in one sentence or in many, and what luck reaches.

All weights are between words, as in :mod:`attention_core.heads`. What is found in a sentence is kept as sums, so that
any number of sentences takes the memory of one, and a search can be stopped at any sentence.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from attention_core import compute
from attention_core.captured import Capture, capture
from attention_core.heads import (
    ONE_IN_TWENTY,
    SHUFFLES,
    Finding,
    all_even_weights,
    judge,
    looks_back,
    pairs_of,
    word_weights,
)
from attention_core.relations import PLACES
from attention_core.tokens import clean, word_starts

CONTROLS = ("others", "back", "stepped")
MENTIONS = ("nearest", "first", "last")
PIECE = 1_000_000  # weights: some 20 ms


class Words(NamedTuple):
    """The words of a captured sentence that can be asked for, as a reader counts them.

    Attributes:
        labels: What was typed.
        places: Which of the capture's words each is; special tokens and white space are left out.
        back: Whether a word may only look at itself and at earlier ones.
    """

    labels: tuple[str, ...]
    places: tuple[int, ...]
    back: bool


class Marks(NamedTuple):
    """What is asked of a sentence.

    Attributes:
        what: "words", for two words wherever they stand; or "previous" or "first", for every word of the sentence.
        query: The word that looks.
        key: The word that is looked at.
        which: Which mention of them, where there are several: "nearest" (to one another), "first" or "last".
    """

    what: str
    query: str = ""
    key: str = ""
    which: str = MENTIONS[0]


@dataclass(frozen=True)
class Looks:
    """What N heads do with the marked words of some sentences, summed over the sentences: two of them can be added.

    Every sentence counts the same; what one adds is the mean over its marked pairs.

    Attributes:
        sentences: How many there are.
        pairs: How many pairs were marked in them.
        weight: The weight from the query to the key.
        squares: Its square.
        rank: The key's place in the query's row; 1 is the largest weight of the row.
        hits: The share of rows in which it is the largest.
        row: How many words the query may look at.
        controls: Weights to compare with: from the query to the other words; from the other words to the key; between
            other words in the same order and as far apart. Special tokens are no words here.
        counted: In how many sentences there was such a control.
        chance: The weight in a head of its layer that looks at all allowed tokens equally.
        luck: The weight if the keys are drawn at random among the words of :func:`as_near`, S times.
    """

    sentences: int
    pairs: int
    weight: Float[ndarray, " N"]
    squares: Float[ndarray, " N"]
    rank: Float[ndarray, " N"]
    hits: Float[ndarray, " N"]
    row: Float[ndarray, " N"]
    controls: Float[ndarray, "3 N"]
    counted: Int[ndarray, "3 N"]
    chance: Float[ndarray, " N"]
    luck: Float[ndarray, "S N"]

    def __add__(self, other: "Looks") -> "Looks":
        """Return the sums over both."""
        return Looks(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Ranking:
    """Every head's numbers, N = layers × heads of them in the model's order, and the order from best to worst.

    Attributes:
        order: Heads, layer · heads + head, by their weight, largest first.
        weight: The mean weight from query to key over the sentences.
        spread: Its standard deviation over the sentences.
        rank: The mean place of the key in the row.
        hits: The share of sentences (of rows, where a sentence has several) in which the key has the largest weight.
        row: The mean number of words that the query may look at.
        controls: As in :class:`Looks`, means; NaN where there is nothing to compare with.
        chance: The weight in a head of its layer that looks at all allowed tokens equally.
        sentences: How many there were.
        pairs: How many pairs were marked.
    """

    order: Int[ndarray, " N"]
    weight: Float[ndarray, " N"]
    spread: Float[ndarray, " N"]
    rank: Float[ndarray, " N"]
    hits: Float[ndarray, " N"]
    row: Float[ndarray, " N"]
    controls: Float[ndarray, "3 N"]
    chance: Float[ndarray, " N"]
    sentences: int
    pairs: int


def typed_words(text: str) -> list[str]:
    """Return the words of a text as Unicode cuts them (UAX #29), without white space; no model is needed."""
    text = clean(text)
    words: dict[int, str] = {}
    for number, letter in zip(word_starts(text), text, strict=True):
        words[number] = words.get(number, "") + letter
    return [word for word in words.values() if word.strip()]


def words_of(seen: Capture) -> Words:
    """Return the words of a captured sentence that can be asked for."""
    labels = seen.labels("word")[0]
    places = tuple(sorted({token.word for token in seen.tokens if not token.special and token.text.strip()}))
    return Words(tuple(labels[place] for place in places), places, looks_back(seen))


def mentions(labels: Sequence[str], word: str) -> list[int]:
    """Return where a word stands, whatever its case; and a Korean one with an ending (그것 → 그것은)."""
    wanted = word.strip().casefold()
    found = [place for place, label in enumerate(labels) if label.casefold() == wanted]
    if not found and any("가" <= letter <= "힣" for letter in wanted):
        found = [place for place, label in enumerate(labels) if label.casefold().startswith(wanted)]
    return found


def choose(
    labels: Sequence[str], query: str, key: str, which: str = MENTIONS[0], *, back: bool = False
) -> tuple[int, int] | str:
    """Return where the two words stand, or why they can't be asked for: "missing", or "later" for a key still to come.

    Args:
        labels: The words of the sentence.
        query: The word that looks.
        key: The word that is looked at.
        which: As in :class:`Marks`. Of two pairs equally near, the one in which the key comes first.
        back: Whether the query may look at the key only if it comes first.
    """
    queries, keys = mentions(labels, query), mentions(labels, key)
    if not queries or not keys:
        return "missing"
    pairs = [(q, k) for q in queries for k in keys if k <= q or not back]
    if not pairs:
        return "later"
    rule = {
        "nearest": lambda pair: (abs(pair[0] - pair[1]), pair[1] > pair[0], pair),
        "first": lambda pair: pair,
        "last": lambda pair: (-pair[0], -pair[1]),
    }[which]
    return min(pairs, key=rule)


def looks(seen: Capture, pairs: Sequence[tuple[int, int]], layers: range, shuffles: int = 0, seed: int = 0) -> Looks:
    """Return what every head of some layers does with the marked pairs of a sentence.

    A key that its query may not look at, in a local layer or anywhere, has the weight 0 there.

    Args:
        seen: The captured sentence.
        pairs: Its pairs (query, key), as words that count special tokens.
        layers: Which, from 0.
        shuffles: How many times the keys are drawn at random; the draw is the same in all layers.
        seed: The draw.
    """
    masks = all_even_weights(seen)
    distinct = [allowed.numpy() for allowed in {id(allowed): allowed for _, allowed in masks}.values()]
    draw = np.random.default_rng([seed, zlib.crc32(clean(seen.text).encode())])
    drawn = [
        draw.choice(np.flatnonzero(as_near([allowed[query] for allowed in distinct], key)), shuffles)
        if shuffles
        else np.zeros(0, dtype=int)
        for query, key in pairs
    ]
    typed = words_of(seen).places
    weights = word_weights(seen, layers).numpy()
    return side_by_side(
        _looks(of, pairs, drawn, typed, *(side.numpy() for side in masks[layer]))
        for layer, of in zip(layers, np.split(weights, len(layers)), strict=True)
    )


def as_near(rows: Sequence[Bool[ndarray, " W"]], key: int) -> Bool[ndarray, " W"]:
    """Return the words that are seen wherever the key is seen: all that a query may look at, or a window's.

    So keys at random have the same chance as the marked one to be seen by local layers and full ones.

    Args:
        rows: What the query may look at, in each kind of layer.
        key: The marked word.
    """
    seeing = [row for row in rows if row[key]]
    return np.logical_and.reduce(seeing) if seeing else np.logical_or.reduce(rows)


def _looks(
    weights: Float[ndarray, "H W V"],
    pairs: Sequence[tuple[int, int]],
    drawn: Sequence[Int[ndarray, " S"]],
    typed: Sequence[int],
    even: Float[ndarray, "W V"],
    allowed: Bool[ndarray, "W V"],
) -> Looks:
    parts = []
    for (query, key), other in zip(pairs, drawn, strict=True):
        row = weights[:, query]
        own = row[:, key, None]
        rank = 1.0 + (row > own).sum(axis=-1) + (row[:, :key] == own).sum(axis=-1)  # of equals, the first
        controls = _controls(weights, typed, allowed, query, key)
        parts.append((own[:, 0], rank, (rank == 1).astype(float), controls, row[:, other].T))
    weight, rank, hits, controls, luck = (np.mean(part, axis=0) for part in zip(*parts, strict=True))
    every = np.ones(len(weights))
    return Looks(
        sentences=1,
        pairs=len(pairs),
        weight=weight,
        squares=weight**2,
        rank=rank,
        hits=hits,
        row=every * np.mean([allowed[query].sum() for query, _ in pairs]),
        controls=np.nan_to_num(controls),
        counted=1 - np.isnan(controls).astype(int),
        chance=every * np.mean([even[pair] for pair in pairs]),
        luck=luck,
    )


def side_by_side(layers: Iterable[Looks]) -> Looks:
    """Join what the heads of one layer after the other do with the same sentence."""
    parts = list(layers)
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts], axis=-1)
        for name in ("weight", "squares", "rank", "hits", "row", "controls", "counted", "chance", "luck")
    }
    return Looks(**joined, sentences=parts[0].sentences, pairs=parts[0].pairs)


def ranking(total: Looks) -> Ranking:
    """Rank the heads by their mean weight over the sentences."""
    n = total.sentences
    weight = total.weight / n
    with np.errstate(invalid="ignore", divide="ignore"):
        controls = total.controls / total.counted
    return Ranking(
        order=np.argsort(-weight, kind="stable"),
        weight=weight,
        spread=np.sqrt(np.clip(total.squares / n - weight**2, 0, None)),
        rank=total.rank / n,
        hits=total.hits / n,
        row=total.row / n,
        controls=controls,
        chance=total.chance / n,
        sentences=n,
        pairs=total.pairs,
    )


def finding(total: Looks, heads: int, *, by_distance: bool = False) -> Finding:
    """Judge the best head by the rule of :func:`attention_core.heads.find_head`.

    Args:
        total: Sums over the sentences, with luck.
        heads: How many heads a layer has.
        by_distance: Whether the relation is itself a distance, such as "the word before".

    Raises:
        ValueError: If there are too few shuffles to say 1 in 20.
    """
    shuffles = len(total.luck)
    if shuffles < 1 / ONE_IN_TWENTY - 1:
        raise ValueError(f"give at least 19 shuffles, not {shuffles}")
    found = ranking(total)
    best = int(found.order[0])
    largest = np.sort(total.luck.max(axis=1))[::-1] / total.sentences
    stepped = float(found.controls[CONTROLS.index("stepped"), best])
    numbers = {
        "weight": float(found.weight[best]),
        "hit_rate": float(found.hits[best]),
        "average": float(found.weight.mean()),
        "chance": float(found.chance[best]),
        "stepped": None if by_distance or np.isnan(stepped) else stepped,
        "shuffled": float(largest[int(ONE_IN_TWENTY * (shuffles + 1)) - 1]),
    }
    return Finding(
        layer=best // heads,
        head=best % heads,
        beaten=int((largest >= numbers["weight"]).sum()),
        tried=len(found.order),
        pairs=found.pairs,
        verdict=judge(**numbers),
        weights=torch.from_numpy(found.weight).float().reshape(-1, heads),
        hits=torch.from_numpy(found.hits).float().reshape(-1, heads),
        **numbers,
    )


def reach(seen: Capture, layers: range) -> Float[ndarray, "W V"]:
    """Return the largest weight that any head of some layers has between each two words."""
    return word_weights(seen, layers).amax(dim=0).numpy()


def elsewhere(best: Float[ndarray, "W V"], words: Words, query: int, key: int) -> tuple[int, int]:
    """Return between how many other pairs of words some head's weight is as large, and how many pairs there are.

    The many heads that were tried on one sentence make the best of them look good. This says how good the best looks
    between words that nobody asked about.

    Args:
        best: The largest weight of all heads, between the capture's words.
        words: The sentence's words.
        query: The word that was asked for, among the capture's words.
        key: The word that it looks at.
    """
    asked = (query, key)
    pairs = [  # what no head gives any weight is out of reach: it comes later, or is out of every layer's window
        (a, b) for a in words.places for b in words.places if a != b and (a, b) != asked and best[a, b] > 0
    ]
    return sum(bool(best[pair] >= best[asked]) for pair in pairs), len(pairs)


# Jobs for pages: called from any thread, they go through the compute thread a few layers at a time


def pieces(seen: Capture) -> list[range]:
    """Cut the layers into runs that keep nobody waiting: all at once for a short sentence, single for a long one."""
    size = max(1, PIECE // (seen.heads * len(seen.tokens) ** 2))
    return [range(start, min(start + size, seen.layers)) for start in range(0, seen.layers, size)]


def sentence_words(model: str, text: str, limit: int) -> Words:
    """Read a sentence and return its words."""
    return compute.run(lambda: words_of(compute._seen(model, text, limit)))


def sentence_reach(model: str, text: str, limit: int) -> Float[ndarray, "W V"]:
    """Return the largest weight that any head has between each two words of a sentence."""
    seen = compute.run(compute._seen, model, text, limit)
    return np.max([compute.run(reach, seen, layers) for layers in pieces(seen)], axis=0)


def pair_looks(model: str, text: str, limit: int, query: int, key: int) -> Looks:
    """Return what every head does with one pair of a sentence's words, counted as the capture does."""
    return _all_layers(compute.run(compute._seen, model, text, limit), [(query, key)], 0)


def marked_looks(model: str, text: str, limit: int, relation: str, query: int, key: int) -> Looks:
    """Return what every head does with the pairs of a relation in one of the marked sentences."""
    seen = compute.run(compute._seen, model, text, limit)
    return _all_layers(seen, compute.run(pairs_of, seen, relation, query, key), 0)


def line_looks(model: str, text: str, limit: int, marks: Marks, *, keep: bool = True) -> Looks | str:
    """Return what every head does with the marked words of any sentence, or why it can't be asked.

    Args:
        model: The model's name.
        text: The sentence.
        limit: At how many tokens it is cut.
        marks: What is marked.
        keep: Whether the capture is kept for others; not for the thousands of a file.

    Returns:
        The sums; or "missing" (a word is not in the sentence), "beyond" (it stands after the tokens that fit),
        "later" (the model can't look from this query to a key that is still to come), "far" (it is out of the window of
        every layer) or "unread" (the tokeniser leaves nothing).
    """
    if marks.what == "words":
        labels = typed_words(text)
        if not mentions(labels, marks.query) or not mentions(labels, marks.key):
            return "missing"  # without asking the model
    try:
        seen = compute.run(compute._seen if keep else _fresh, model, text, limit)
        pairs = compute.run(line_pairs, seen, marks)
    except ValueError:  # NoTokens is one
        return "unread"
    if isinstance(pairs, str):
        cut = pairs == "missing" and marks.what == "words" and line_cut(model, text, limit)
        return "beyond" if cut else pairs
    found = _all_layers(seen, pairs, SHUFFLES)
    return found if found.weight.any() else "far"


def line_cut(model: str, text: str, limit: int) -> bool:
    """Return whether the end of a sentence is left out, since it has more tokens than fit."""

    def job() -> bool:
        return compute._fit(model, text, min(limit, compute._model(model).limit or limit))[2] > 0

    return compute.run(job)


def line_pairs(seen: Capture, marks: Marks) -> list[tuple[int, int]] | str:
    """Return the marked pairs of a captured sentence, or why there are none."""
    if marks.what in PLACES:
        return pairs_of(seen, marks.what) or "missing"
    words = words_of(seen)
    pair = choose(words.labels, marks.query, marks.key, marks.which, back=words.back)
    return pair if isinstance(pair, str) else [(words.places[pair[0]], words.places[pair[1]])]


def sentence_pair(model: str, text: str, limit: int, marks: Marks) -> tuple[int, int]:
    """Return the first marked pair of a sentence that has one, as words that count special tokens."""
    return compute.run(lambda: line_pairs(compute._seen(model, text, limit), marks)[0])


def _fresh(model: str, text: str, limit: int) -> Capture:
    loaded = compute._model(model)
    return capture(loaded, compute._fit(model, text, min(limit, loaded.limit or limit))[0])


def _all_layers(seen: Capture, pairs: Sequence[tuple[int, int]], shuffles: int) -> Looks:
    return side_by_side(compute.run(looks, seen, pairs, layers, shuffles) for layers in pieces(seen))


def _controls(
    weights: Float[ndarray, "H W V"],
    typed: Sequence[int],
    allowed: Bool[ndarray, "W V"],
    query: int,
    key: int,
) -> Float[ndarray, "3 H"]:
    step, known = key - query, set(typed)
    pairs = (
        [(query, word) for word in typed if word not in (query, key)],
        [(word, key) for word in typed if word not in (query, key)],
        [(word, word + step) for word in typed if word != query and word + step in known],
    )
    means = []
    for found in pairs:
        inside = [pair for pair in found if allowed[pair]]
        queries, keys = [pair[0] for pair in inside], [pair[1] for pair in inside]
        means.append(weights[:, queries, keys].mean(axis=-1) if inside else np.full(len(weights), np.nan))
    return np.stack(means)
