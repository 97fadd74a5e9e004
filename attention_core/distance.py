"""How differently two heads behave: the distance of two rows of weights, of two heads, and a map of all heads.

The distance of two rows is the Jensen–Shannon distance: 0 where they are the same, 1 where they share no key. The
distance of two heads is the mean of it over the rows of some sentences. Both are true distances: the way round by a
third head is never shorter.

Source: Lin 1991 for the divergence, Endres & Schindelin 2003 for its square root; heads by the divergence of their
rows and multidimensional scaling: Clark et al. 2019, "What Does BERT Look At?", section 6.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from attention_core import compute
from attention_core.relations import MARKED, sentences

if TYPE_CHECKING:
    from attention_core.captured import Capture

EACH = 4  # sentences of each marked relation, over which heads are compared
PIECE = 1_000_000  # numbers that are worked on at once, well under a tenth of a second
STEPS, MOST_STEPS = 8, 400  # of the scaling: in one piece, in all
SETTLED = 1e-4  # relative: when a piece betters the map by less, it is done

Slot = tuple[int | None, int | None]


def js_divergence(p: Float[ndarray, "*#B K"], q: Float[ndarray, "*#B K"]) -> Float[ndarray, "*B"]:
    """Return the Jensen–Shannon divergence in bits, H((p + q) / 2) − (H(p) + H(q)) / 2: 0 to 1, over the last axis."""
    p, q = p.astype(float, copy=False), q.astype(float, copy=False)  # a small difference of large numbers
    return np.clip(_entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2, 0, 1)


def js_distance(p: Float[ndarray, "*#B K"], q: Float[ndarray, "*#B K"]) -> Float[ndarray, "*B"]:
    """Return the Jensen–Shannon distance, the square root of the divergence: 0 to 1, over the last axis."""
    return np.sqrt(js_divergence(p, q))


def align(first: Sequence[str], second: Sequence[str], *, by_place: bool = True) -> list[Slot]:
    """Give each word its partner in the other text, or None.

    Texts of as many words are paired one by one; others by the longest runs of words that both have, and what stands
    between two runs one by one if it is as long in both.

    Args:
        first: The words of one.
        second: The words of the other.
        by_place: False for words that two tokenisers made: as many of them may still be others.
    """
    if by_place and len(first) == len(second):
        return [(n, n) for n in range(len(first))]
    slots: list[Slot] = []
    for _, low, high, start, stop in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if high - low == stop - start:
            slots += zip(range(low, high), range(start, stop), strict=True)
        else:
            slots += [(n, None) for n in range(low, high)] + [(None, n) for n in range(start, stop)]
    return slots


def row_distances(
    first: Float[ndarray, "Q K"], second: Float[ndarray, "R L"], queries: Sequence[Slot], keys: Sequence[Slot]
) -> Float[ndarray, " N"]:
    """Return the distance of each pair of queries; NaN for a query without a partner.

    A key without a partner is one that the other head gives no weight. What is missing from a row's sum of 1, since
    it lies on keys that are hidden or on a sink, counts as one more key.
    """
    sides = []
    for side, weights in enumerate((first.astype(float), second.astype(float))):
        missing = np.clip(1 - weights.sum(axis=1), 0, 1)
        columns = [np.zeros(len(weights)) if slot[side] is None else weights[:, slot[side]] for slot in keys]
        sides.append(np.stack([*columns, missing], axis=1))
    found = np.full(len(queries), np.nan)
    paired = [n for n, slot in enumerate(queries) if None not in slot]
    found[paired] = js_distance(*(rows[[queries[n][side] for n in paired]] for side, rows in enumerate(sides)))
    return found


def shipped() -> list[str]:
    """Return the sentences over which heads are compared: the first four of each marked relation."""
    return [sentence.text for relation in MARKED for sentence in sentences(relation)[:EACH]]


def layer_rows(seen: "Capture", layer: int) -> Float[ndarray, "H Q K"]:
    """Return the weights of every head of a layer, their sinks as one more key, the last."""
    weights, sink, _ = seen.shares(layer)
    return np.concatenate([weights.cpu().numpy(), sink.cpu().numpy()[..., None]], axis=-1).astype(float)


def all_rows(seen: "Capture") -> Float[ndarray, "N Q K"]:
    """Return the weights of every head of every layer, layer by layer, N in all; a sink is the last key."""
    rows = np.concatenate([layer_rows(seen, layer) for layer in range(seen.layers)])
    return rows if rows[..., -1].any() else rows[..., :-1]


def sentence_rows(model: str, text: str, limit: int) -> Float[ndarray, "N Q K"]:
    """Read one sentence and return what every head does with it. In the compute thread."""
    return all_rows(compute._seen(model, text, limit))


def distances_of(block: range, rows: Sequence[Float[ndarray, "N _ _"]]) -> Float[ndarray, "B M"]:
    """Return the distances of a block of heads to itself and to all heads after it: the mean over all rows."""
    total = np.zeros((len(block), len(rows[0]) - block.start))
    for sentence in rows:
        own, others = sentence[block.start : block.stop, None], sentence[None, block.start :]
        total += js_distance(own, others).sum(axis=-1)
    return total / sum(sentence.shape[1] for sentence in rows)


def all_distances(
    rows: Sequence[Float[ndarray, "N _ _"]], piece: Callable[..., Float[ndarray, "B M"]] = distances_of
) -> Float[ndarray, "N N"]:
    """Return the distance between every two heads.

    Args:
        rows: For each sentence what every head does with it, from :func:`all_rows`.
        piece: Does the work of :func:`distances_of`, elsewhere perhaps.
    """
    heads = len(rows[0])
    size = max(1, PIECE // (heads * sum(sentence[0].size for sentence in rows)))
    found = np.zeros((heads, heads))
    for start, stop in pairwise([*range(0, heads, size), heads]):
        found[start:stop, start:] = piece(range(start, stop), rows)
    found = np.triu(found, 1)
    return found + found.T


def head_distances(captures: Sequence["Capture"]) -> Float[ndarray, "N N"]:
    """Return the distance between every two heads over some captured sentences; heads are numbered layer by layer."""
    return all_distances([all_rows(seen) for seen in captures])


@dataclass(frozen=True)
class HeadMap:
    """All heads in the plane, near where they behave alike, and how far that can be trusted.

    Attributes:
        places: Where each head lies.
        stress: By how much distances on the map miss the true ones: the root of Σ(map − true)² / Σ true².
        correlation: Of distances on the map with true ones, over all pairs; NaN where one of them is the same for all.
    """

    places: Float[ndarray, "N 2"]
    stress: float
    correlation: float


def head_map(distances: Float[ndarray, "N N"], piece: Callable[..., Float[ndarray, "N 2"]] | None = None) -> HeadMap:
    """Place all heads in the plane, so that distances there come as near to the true ones as they can.

    It is metric multidimensional scaling by SMACOF, which begins with the classical solution; the same each time.

    Args:
        distances: From :func:`head_distances`.
        piece: Does the work of :func:`scale`, elsewhere perhaps.

    Source: Kruskal 1964; De Leeuw 1977; scikit-learn's ``MDS``.
    """
    from sklearn.manifold import MDS  # noqa: F401 - takes seconds the first time, which no piece should

    heads = len(distances)
    if heads < 3 or not distances.any():  # nothing to fit: on a line, or all in one place
        places = np.zeros((heads, 2))
        places[:, 0] = distances[0]
        return HeadMap(places, 0.0, float("nan"))
    places, before = None, np.inf
    for _ in range(MOST_STEPS // STEPS):
        places = (piece or scale)(distances, places)
        found = _judged(places, distances)
        if found.stress > before * (1 - SETTLED):
            break
        before = found.stress
    return found


def scale(distances: Float[ndarray, "N N"], places: Float[ndarray, "N 2"] | None) -> Float[ndarray, "N 2"]:
    """Better a map by a few steps of the scaling; without one, begin with the classical solution."""
    from sklearn.manifold import MDS

    steps = MDS(2, metric="precomputed", init="classical_mds", n_init=1, max_iter=STEPS, random_state=0)
    return steps.fit_transform(distances, init=places)


def nearest(distances: Float[ndarray, "N N"], head: int, count: int) -> list[tuple[int, float]]:
    """Return the heads that behave most like one head, nearest first, and their distances."""
    order = np.argsort(distances[head], kind="stable")
    return [(int(other), float(distances[head, other])) for other in order if other != head][:count]


def _entropy(p: Float[ndarray, "*B K"]) -> Float[ndarray, "*B"]:
    return -(p * np.log2(p + np.finfo(p.dtype).tiny)).sum(axis=-1)  # 0 · log 0 = 0


def _judged(places: Float[ndarray, "N 2"], distances: Float[ndarray, "N N"]) -> HeadMap:
    pairs = np.triu_indices(len(distances), 1)
    true, drawn = distances[pairs], np.linalg.norm(places[pairs[0]] - places[pairs[1]], axis=1)
    size = (true**2).sum()
    stress = float(np.sqrt(((drawn - true) ** 2).sum() / size)) if size else 0.0
    varies = np.ptp(true) > 0 and np.ptp(drawn) > 0
    return HeadMap(places, stress, float(np.corrcoef(drawn, true)[0, 1]) if varies else float("nan"))
