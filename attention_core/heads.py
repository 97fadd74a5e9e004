"""What a head does: find the head that looks most from one marked word to another, and say honestly whether it is one.

All weights here are between words: a word gets the sum of the weights of its tokens as a key, and the mean of its
tokens' rows as a query. Special tokens stay in, as words of their own, so every row sums to 1.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attention_core.captured import Capture
from attention_core.relations import MARKED
from attention_core.weights_only import LayerWeights

CLEARLY = 2.0  # "clearly more" means at least twice as much
HALF = 0.5
SHUFFLES = 99
ONE_IN_TWENTY = 0.05

Verdict = Literal["found", "everyone", "distance", "none"]


@dataclass(frozen=True)
class Marked:
    """What every head of a model does with the marked pairs of one sentence: P pairs, N heads in all, W words.

    Attributes:
        rows: The row of weights of each pair's query, in every head; each sums to 1.
        keys: Which word is marked in each row.
        allowed: Which words the query may look at, in every head: in a local layer fewer.
        even: The same rows for heads that look at all allowed tokens equally.
        stepped: For each pair, the mean weight between other words that stand in the same order and as far apart; NaN
            where there are none.
    """

    rows: Float[Tensor, "P N W"]
    keys: Int[Tensor, " P"]
    allowed: Bool[Tensor, "P N W"]
    even: Float[Tensor, "P N W"]
    stepped: Float[Tensor, "P N"]


@dataclass(frozen=True)
class Finding:
    """The best head for a relation, and what it has to be compared with. Layers and heads count from 0.

    Attributes:
        layer: Where it is.
        head: Where it is.
        weight: Its mean weight from the marked query to the marked key, over the sentences.
        hit_rate: In which share of the rows the marked key has the largest weight of all words.
        average: The mean weight of all heads.
        chance: The weight in a head of its layer that looks at all tokens equally.
        stepped: Its mean weight between other words just as far apart; None where distance is the relation itself.
        shuffled: What the best of all heads still reaches if the keys are marked at random: 19 times of 20 it is less.
        beaten: In how many of the ``SHUFFLES`` the best head was as good as this one.
        tried: Among how many heads it is the best.
        pairs: How many pairs were marked.
        verdict: "found", "everyone", "distance" or "none", by the rule of :func:`find_head`.
        weights: The mean weight of every head.
        hits: The hit rate of every head.
    """

    layer: int
    head: int
    weight: float
    hit_rate: float
    average: float
    chance: float
    stepped: float | None
    shuffled: float
    beaten: int
    tried: int
    pairs: int
    verdict: Verdict
    weights: Float[Tensor, "L H"]
    hits: Float[Tensor, "L H"]


def word_weights(seen: Capture, layers: range | None = None) -> Float[Tensor, "N W V"]:
    """Return the weights between words of every head, layer by layer; N heads in all, V = W words.

    Args:
        seen: The captured sentence.
        layers: Which layers; by default all.
    """
    mean, total = _grouping(seen)
    found = []
    for layer in layers or range(seen.layers):
        found.append(mean @ seen.shares(layer).weights.cpu() @ total)
    return torch.cat(found)


def even_weights(seen: Capture, layer: int = 0) -> tuple[Float[Tensor, "W V"], Bool[Tensor, "W V"]]:
    """Return the weights between words of a head that looks at all allowed tokens equally, and which are allowed."""
    mean, total = _grouping(seen)
    allowed = seen.shares(layer, heads=[0]).allowed[0].float().cpu()
    weights = allowed / allowed.sum(dim=-1, keepdim=True).clamp_min(1)
    return mean @ weights @ total, mean @ allowed @ total > 0


def all_even_weights(seen: Capture) -> list[tuple[Float[Tensor, "W V"], Bool[Tensor, "W V"]]]:
    """Return :func:`even_weights` of every layer; layers that may look at the same share one result."""
    masks = [_mask(seen, layer) for layer in range(seen.layers)]
    found = {mask: even_weights(seen, masks.index(mask)) for mask in dict.fromkeys(masks)}
    return [found[mask] for mask in masks]


def places(seen: Capture) -> list[int]:
    """Return the word (special tokens count) in which each word of ``seen.text.split()`` begins.

    Raises:
        ValueError: If the tokeniser leaves nothing of one of them.
    """
    found, end = [], 0
    for word in seen.text.split():
        start = seen.text.index(word, end)
        end = start + len(word)
        inside = [t.word for t in seen.tokens if not t.special and t.start < end and t.end > start and t.text.strip()]
        if not inside:
            raise ValueError(f"the model sees nothing of {word!r}")
        found.append(inside[0])
    return found


def pairs_of(seen: Capture, relation: str, query: int = 0, key: int = 0) -> list[tuple[int, int]]:
    """Return the pairs (query, key) of a relation in a captured sentence, as words that count special tokens.

    A model that only looks back can't look from a word to a later one: a marked pair in that order is turned round, so
    that "verb → object" is measured as "object → verb".

    Args:
        seen: The captured sentence.
        relation: One of ``relations.RELATIONS``.
        query: The marked word, in ``seen.text.split()``; only for relations that are marked.
        key: The word that it should look at.
    """
    words = places(seen)
    if relation in MARKED:
        a, b = words[query], words[key]
        return [(b, a)] if looks_back(seen) and b > a else [(a, b)]
    if relation == "previous":
        return [(word, before) for before, word in pairwise(words) if word != before]
    return [(word, 0) for word in dict.fromkeys(words) if word != 0]


def looks_back(seen: Capture) -> bool:
    """Return whether a word may only look at itself and at earlier ones."""
    return seen.causal()


def marked(seen: Capture, pairs: Sequence[tuple[int, int]]) -> Marked:
    """Collect what every head does with the marked pairs of a sentence.

    A key that its query may not look at, in a local layer or anywhere, has the weight 0 there.

    Args:
        seen: The captured sentence.
        pairs: Its marked pairs (query, key), from :func:`pairs_of`.
    """
    weights = word_weights(seen)
    even, allowed = (
        torch.stack(side).repeat_interleave(len(weights) // seen.layers, dim=0)
        for side in zip(*all_even_weights(seen), strict=True)
    )
    specials = {token.word for token in seen.tokens if token.special}
    queries, keys = (torch.tensor([pair[side] for pair in pairs], dtype=torch.long) for side in (0, 1))
    words = weights.shape[1]
    stepped = torch.full((len(pairs), len(weights)), torch.nan)
    for place, (query, key) in enumerate(pairs):
        step = key - query
        others = [
            word
            for word in range(max(0, -step), min(words, words - step))
            if word != query and not {word, word + step} & specials
        ]
        if others:
            at = [word + step for word in others]
            inside = allowed[:, others, at]
            stepped[place] = (weights[:, others, at] * inside).sum(dim=-1) / inside.sum(dim=-1)  # NaN for none
    rows, allowed, even = (of[:, queries].transpose(0, 1).contiguous() for of in (weights, allowed, even))
    return Marked(rows, keys, allowed, even, stepped)


def pair_weights(sentences: Sequence[Marked]) -> Float[Tensor, " N"]:
    """Return every head's mean weight from marked query to marked key; every sentence counts the same."""
    return _mean([s.rows[torch.arange(len(s.keys)), :, s.keys] for s in sentences])


def pair_hits(sentences: Sequence[Marked]) -> Float[Tensor, " N"]:
    """Return for every head in which share of the rows the marked word has the largest weight of all words."""
    return _mean([(s.rows.argmax(dim=-1) == s.keys[:, None]).float() for s in sentences])


def find_head(
    sentences: Sequence[Marked],
    heads: int,
    *,
    by_distance: bool = False,
    shuffles: int = SHUFFLES,
    seed: int = 0,
) -> Finding:
    """Find the head with the largest mean weight from marked query to marked key, and judge it.

    The best of many is good by luck alone, so it is compared with the best of just as many where there is nothing to
    find: every marked key is drawn anew among the words that its query may look at (in each layer in which it may look
    at the marked one), and the best head is searched again, ``shuffles`` times. The rule for "found", that is, a head
    does it:

    1. its weight is clearly that of chance: at least ``CLEARLY`` times as much;
    2. at most 1 in 20 of the shuffled searches finds a head that is as good;
    3. the marked word gets the largest weight of its row in at least half of the rows;
    4. its weight is clearly that of the average head. If only this fails, it is no one head's work: "everyone";
    5. its weight is clearly that between other words just as far apart. A head that fails here looks at a distance,
       not at a relation: "distance". For relations that are a distance (``by_distance``) this is left out.

    A head that fails 1, 2 or 3 is "none".

    Args:
        sentences: From :func:`marked`, of one model; every sentence counts the same, however many pairs it has.
        heads: How many heads a layer has.
        by_distance: Whether the relation is itself a distance, such as "the word before".
        shuffles: How many times the marks are drawn at random.
        seed: The draw.

    Raises:
        ValueError: If there is no sentence, or there are too few shuffles to say 1 in 20.

    Source: the largest of all in each shuffle, Westfall & Young 1993; heads and syntax: Clark et al. 2019, "What Does
    BERT Look At?".
    """
    if not sentences or shuffles < 1 / ONE_IN_TWENTY - 1:
        raise ValueError(f"give at least one sentence and 19 shuffles, not {len(sentences)} and {shuffles}")
    weights, hits = pair_weights(sentences), pair_hits(sentences)
    best = int(weights.argmax())
    chance = float(_mean([s.even[torch.arange(len(s.keys)), :, s.keys] for s in sentences])[best])
    weight, hit_rate, average = float(weights[best]), float(hits[best]), float(weights.mean())
    steps = torch.cat([s.stepped[:, best] for s in sentences])
    stepped = None if by_distance or steps.isnan().all() else float(steps.nanmean())

    luck = torch.zeros(shuffles, len(weights))
    draw = torch.Generator().manual_seed(seed)
    for s in sentences:
        near = s.allowed[torch.arange(len(s.keys)), :, s.keys]  # the heads that see the marked word
        all_of_them = (s.allowed | ~near[..., None]).all(dim=1)
        share = torch.where(near.any(dim=-1, keepdim=True), all_of_them, s.allowed.any(dim=1)).float()
        for row, odds in zip(s.rows, share, strict=True):
            drawn = odds.multinomial(shuffles, replacement=True, generator=draw)
            luck += row[:, drawn].T / (len(s.keys) * len(sentences))
    largest = luck.max(dim=1).values.sort(descending=True).values
    shuffled = float(largest[int(ONE_IN_TWENTY * (shuffles + 1)) - 1])  # of 99 the fifth largest
    beaten = int((largest >= weight).sum())

    return Finding(
        layer=best // heads,
        head=best % heads,
        weight=weight,
        hit_rate=hit_rate,
        average=average,
        chance=chance,
        stepped=stepped,
        shuffled=shuffled,
        beaten=beaten,
        tried=len(weights),
        pairs=sum(len(s.keys) for s in sentences),
        verdict=judge(weight, hit_rate, average=average, chance=chance, shuffled=shuffled, stepped=stepped),
        weights=weights.reshape(-1, heads),
        hits=hits.reshape(-1, heads),
    )


def judge(
    weight: float, hit_rate: float, *, average: float, chance: float, shuffled: float, stepped: float | None
) -> Verdict:
    """Judge the best head by the rule of :func:`find_head`; the numbers are those of a :class:`Finding`."""
    if weight < CLEARLY * chance or weight <= shuffled or hit_rate < HALF:
        return "none"
    if weight < CLEARLY * average:
        return "everyone"
    return "distance" if stepped is not None and weight < CLEARLY * stepped else "found"


def _mask(seen: Capture, layer: int) -> Hashable:
    own = seen.layer(layer)
    if isinstance(own, LayerWeights):
        return layer
    allowed = own.formula.term("allowed")
    mask = None if allowed is None else (allowed.data_ptr(), allowed.shape)
    return own.formula.term("causal"), own.formula.term("window"), mask


def _grouping(seen: Capture) -> tuple[Float[Tensor, "W Q"], Float[Tensor, "K V"]]:
    # Both as matrices: one product groups all heads of a layer at once.
    queries, keys = (torch.nn.functional.one_hot(numbers).float() for numbers in seen.group_numbers("word"))
    return (queries / queries.sum(dim=0)).T, keys


def _mean(values: Sequence[Float[Tensor, "_ N"]]) -> Float[Tensor, " N"]:
    return torch.stack([value.mean(dim=0) for value in values]).mean(dim=0)
