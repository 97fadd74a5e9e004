"""Minimal pairs: two sentences that differ in one word, and with it in what a pronoun means. Does a head switch?

"The trophy does not fit in the suitcase because it is too big": the trophy is. "… too small": the suitcase is. A head
that follows the meaning looks from *it* to the trophy in the first and to the suitcase in the second.

Source: Levesque, Davis & Morgenstern 2012, "The Winograd Schema Challenge"; as minimal pairs of what a model prefers,
Warstadt et al. 2020, "BLiMP".
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from attention_core import compute
from attention_core.captured import Capture
from attention_core.heads import ONE_IN_TWENTY, places, word_weights
from attention_core.ranking import pieces

HOME = Path(__file__).parents[1] / "assets" / "minimal_pairs.toml"
ASKED = ("pronoun", "adjective")
SHUFFLES = 999
CHANCE = 1 / 4  # two coins, one a sentence, both right


class MinimalPair(NamedTuple):
    """Two sentences that differ in their last word.

    Attributes:
        texts: The sentences.
        pronoun: The place of the pronoun in ``text.split()``, the same in both, from 0.
        nouns: The places of the two nouns; the pronoun means the first in the first sentence, the second in the second.
        glosses: What each sentence means, by language.
    """

    texts: tuple[str, str]
    pronoun: int
    nouns: tuple[int, int]
    glosses: dict[str, tuple[str, str]]

    @property
    def adjective(self) -> int:
        """The place of the word in which they differ."""
        return len(self.texts[0].split()) - 1


@dataclass(frozen=True)
class Switches:
    """What N heads do on P minimal pairs, heads in the model's order.

    Attributes:
        order: Heads, layer · heads + head: by their share, then by how clearly they prefer the right noun.
        share: In which share of the pairs the head prefers the right noun in both sentences.
        wrong: In which share it switches the wrong way round.
        right: In which share of all sentences it prefers the right noun.
        margin: How much more weight the right noun gets than the other, on average.
        pairs: Of each pair and head: 1 switches as it should, −1 the wrong way round, 0 stays with one noun.
        shuffled: The share that the best head still reaches if it is drawn at random which sentence of a pair means
            which noun: 19 times of 20 it is less.
        beaten: In how many of the ``SHUFFLES`` draws the best head was as good as the best really is.
    """

    order: Int[ndarray, " N"]
    share: Float[ndarray, " N"]
    wrong: Float[ndarray, " N"]
    right: Float[ndarray, " N"]
    margin: Float[ndarray, " N"]
    pairs: Int[ndarray, "P N"]
    shuffled: float
    beaten: int


@cache
def minimal_pairs() -> tuple[MinimalPair, ...]:
    """Return all pairs."""
    entries = tomllib.loads(HOME.read_text(encoding="utf-8"))["pair"]
    return tuple(
        MinimalPair((e["first"], e["second"]), e["pronoun"], tuple(e["nouns"]), {"ko": tuple(e["ko"])}) for e in entries
    )


def noun_weights(seen: Capture, query: int, nouns: tuple[int, int], layers: range) -> Float[ndarray, "N 2"]:
    """Return the weights from one word of a sentence to two nouns, in the heads of some layers; places as in a pair."""
    words = places(seen)
    return word_weights(seen, layers)[:, words[query], [words[noun] for noun in nouns]].numpy()


def pair_weights(model: str, pair: MinimalPair, asked: str, limit: int) -> Float[ndarray, "N 2 2"]:
    """Return every head's weights, from the pronoun (or the adjective) of each sentence to each of the two nouns.

    Called from any thread; it goes through the compute thread in pieces.
    """
    query = pair.pronoun if asked == "pronoun" else pair.adjective
    sentences = []
    for text in pair.texts:
        seen = compute.run(compute._seen, model, text, limit)
        found = [compute.run(noun_weights, seen, query, pair.nouns, layers) for layers in pieces(seen)]
        sentences.append(np.concatenate(found))
    return np.stack(sentences, axis=1)


def place_of(model: str, text: str, word: int, limit: int) -> int:
    """Return the word, special tokens counted, in which a word of ``text.split()`` begins."""
    return compute.run(lambda: places(compute._seen(model, text, limit))[word])


def switches(pairs: Sequence[Float[ndarray, "N 2 2"]], shuffles: int = SHUFFLES, seed: int = 0) -> Switches:
    """Say for every head whether it switches its noun with the adjective, and how far the best gets by luck.

    If the adjective had no say, it would not matter which sentence of a pair is called the first: so this is drawn
    anew for each pair, and the best head is searched again, ``shuffles`` times.

    Args:
        pairs: For each pair the weights [head, sentence, noun], from :func:`pair_weights`.
        shuffles: How many draws.
        seed: The draw.

    Raises:
        ValueError: If there is no pair, or there are too few shuffles to say 1 in 20.

    Source: the largest of all in each shuffle, Westfall & Young 1993.
    """
    if not pairs or shuffles < 1 / ONE_IN_TWENTY - 1:
        raise ValueError(f"give at least one pair and 19 shuffles, not {len(pairs)} and {shuffles}")
    weights = np.stack(pairs)  # pair, head, sentence, noun
    more = np.stack([weights[:, :, s, s] - weights[:, :, s, 1 - s] for s in (0, 1)], axis=-1)  # right minus other
    outcome = (more > 0).all(axis=-1).astype(int) - (more < 0).all(axis=-1).astype(int)
    share, margin = (outcome == 1).mean(axis=0), more.mean(axis=(0, 2))
    flips = np.random.default_rng(seed).choice([-1, 1], (shuffles, len(pairs)))
    good, bad = (outcome == 1).astype(float), (outcome == -1).astype(float)
    luck = ((flips == 1) @ good + (flips == -1) @ bad).max(axis=1) / len(pairs)
    largest = np.sort(luck)[::-1]
    best = share.max()
    return Switches(
        order=np.lexsort((-margin, -share)),
        share=share,
        wrong=(outcome == -1).mean(axis=0),
        right=(more > 0).mean(axis=(0, 2)),
        margin=margin,
        pairs=outcome,
        shuffled=float(largest[int(ONE_IN_TWENTY * (shuffles + 1)) - 1]),
        beaten=int((largest >= best).sum()),
    )
