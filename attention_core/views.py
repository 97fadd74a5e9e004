"""One head as a page shows it: plain arrays and words, in the units and with the special tokens that were asked for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from numpy import ndarray
from torch import Tensor

from attention_core.captured import Capture
from attention_core.factor import USUAL, FactorSource
from attention_core.formula import TERMS, Formula
from attention_core.grouping import group_weights, tiles
from attention_core.inputs import BETWEEN
from attention_core.tokens import Token
from attention_core.weights_only import LayerWeights

UNITS = ("token", "word")
SPECIALS = ("shown", "hidden", "renormalised")
THUMBNAIL = 48


@dataclass(frozen=True)
class HeadView:
    """One head's numbers, for the queries and keys that are shown.

    In words there are weights only: scores belong to tokens, and a sum of scores means nothing. Then ``raw``,
    ``final`` and ``steps`` are empty (0, Q, K). So they are where the model hands out weights only, as ``only`` says.

    Attributes:
        queries: Their labels.
        keys: Their labels.
        special_queries: Which of them are special tokens.
        special_keys: Which of them are special tokens.
        pieces: The tokeniser's own names of the queries; empty in words.
        raw: Raw scores, first axis 1.
        steps: The scores after each extra term, in order; their names stand in ``step_names``.
        step_names: Such as "softcap" or "bias".
        final: The scores that enter the softmax, first axis 1.
        allowed: Where a query may look.
        weights: Each row, plus its ``hidden`` and ``sink``, sums to 1 (or is all zero where nothing is allowed).
        hidden: The weight on special tokens that are hidden; zero where they are shown or the rest is renormalised.
        sink: The weight on the head's sink.
        factor: What raw scores are multiplied by.
        size: dₖ, the size of one head; 0 where it can't be seen.
        group: The key-value head that this query head reads.
        groups: How many key-value heads the layer has.
        heads: How many query heads it has; more than groups where several share one.
        causal: Whether a query may only look back.
        terms: The terms of the head's own formula, in order, with their numbers (NaN for a matrix): "factor", and those
            of ``formula.TERMS`` that it has. The changes of a learner are not in it.
        source: Where the factor comes from.
        place: The layer's number in the model, from 0, where it is another one: layers without attention come before.
        only: Why there are weights and no scores; empty where there are scores.
        kind: Which attention it is, as in a capture: in "cross" queries and keys are tokens of two texts.
        between: Which part of a pair is shown, as in ``inputs.Input``; the rest of each row is ``hidden``.
        key_pieces: The tokeniser's own names of the keys; empty in words.
        query_places: Where each query stands among all tokens or words of the text, from 0, hidden ones counted; a
            text where two places stand beside each other.
        key_places: The same for the keys.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    special_queries: tuple[bool, ...]
    special_keys: tuple[bool, ...]
    pieces: tuple[str, ...]
    raw: Float[ndarray, "S Q K"]
    steps: Float[ndarray, "N Q K"]
    step_names: tuple[str, ...]
    final: Float[ndarray, "S Q K"]
    allowed: Bool[ndarray, "Q K"]
    weights: Float[ndarray, "Q K"]
    hidden: Float[ndarray, " Q"]
    sink: Float[ndarray, " Q"]
    factor: float
    size: int
    group: int
    groups: int
    heads: int
    causal: bool
    terms: tuple[tuple[str, float], ...] = ()
    source: FactorSource = USUAL
    place: int | None = None
    only: str = ""
    kind: str = ""
    between: str = ""
    key_pieces: tuple[str, ...] = ()
    query_places: tuple[int | str, ...] = ()
    key_places: tuple[int | str, ...] = ()

    @property
    def square(self) -> bool:
        """Whether queries and keys are tokens of one text, all in one order."""
        return self.kind != "cross" and not self.between


def view_head(
    seen: Capture,
    layer: int,
    head: int,
    unit: str = "token",
    special: str = "shown",
    formula: Formula = Formula(),
    kind: str | None = None,
    *,
    first: bool = True,
    between: str = "",
) -> HeadView:
    """Prepare one head for showing.

    Args:
        seen: The capture.
        layer: From 0.
        head: From 0.
        unit: "token", or "word": the sum over a word's keys and the mean over its queries.
        special: What to do with special tokens: "shown", "hidden", or hidden and the rest "renormalised" to sum to 1.
        formula: What to change in the model's own formula.
        kind: Which attention, in encoder-decoder models.
        first: Whether the first token is shown among the keys; many heads rest on it what they have no use for.
        between: Of a pair of sentences, "ab" or "ba" shows only how the words of one look at those of the other; what
            falls on other keys is ``hidden``, never spread over the rest.

    Raises:
        ValueError: If ``unit`` or ``special`` is none of these.
        WeightsOnly: If the formula is to be changed, and the model hands out weights only.
    """
    own = seen.layer(layer, kind)
    if isinstance(own, LayerWeights):
        weights = seen.weights(layer, head, formula, kind)
        return _without_scores(seen, weights, layer, head, unit, special, first, kind, between)
    trace = seen.trace(layer, head, formula, kind)
    asked = (unit, special, first, kind, between)
    rows, columns, shown = _shown(seen, trace.weights, trace.sink, trace.allowed, *asked)

    def cut(*scores: Tensor) -> np.ndarray:
        kept = [s[rows][:, columns] for s in scores] if unit == "token" else []
        return _array(torch.stack(kept)) if kept else _nothing(shown)

    return HeadView(
        **shown,
        raw=cut(trace.raw),
        steps=cut(*(step.scores for step in trace.steps)),
        step_names=tuple(step.name for step in trace.steps),
        final=cut(trace.final),
        factor=trace.factor,
        size=own.query.shape[-1],
        group=seen.group(layer, head, kind),
        groups=len(own.key),
        heads=len(own.query),
        causal=bool(own.formula.changed(formula).term("causal")),
        terms=_terms(own.formula.head(head), own.query.shape[-1]),
        source=own.source,
        place=_place(seen, layer, kind),
    )


def view_map(
    seen: Capture,
    weights: Float[Tensor, "Q K"],
    unit: str = "token",
    special: str = "shown",
    *,
    first: bool = True,
    sink: Float[Tensor, " Q"] | None = None,
) -> HeadView:
    """Prepare a map that is no single head's, such as a mean over heads, for showing; it has no scores.

    Args:
        seen: The capture that the map was made of.
        weights: The map, between tokens.
        unit: As in :func:`view_head`.
        special: As in :func:`view_head`.
        first: As in :func:`view_head`.
        sink: What of each row goes to sinks, where there are some.

    Raises:
        ValueError: If ``unit`` or ``special`` is none of those.
    """
    return _without_scores(seen, weights, 0, 0, unit, special, first, None, sink=sink)


def _without_scores(
    seen: Capture,
    weights: Tensor,
    layer: int,
    head: int,
    unit: str,
    special: str,
    first: bool,
    kind: str | None,
    between: str = "",
    sink: Tensor | None = None,
) -> HeadView:
    own = seen.layer(layer, kind)
    allowed = seen.shares(layer, kind, [head]).allowed[0] | (weights > 0)  # in a map, other layers may see further
    sink = torch.zeros_like(weights[:, 0]) if sink is None else sink
    _, _, shown = _shown(seen, weights, sink, allowed, unit, special, first, kind, between)
    given = isinstance(own, LayerWeights)
    return HeadView(
        **shown,
        raw=_nothing(shown),
        steps=_nothing(shown),
        step_names=(),
        final=_nothing(shown),
        factor=1.0,
        size=0 if given else own.query.shape[-1],
        group=seen.group(layer, head, kind),
        groups=own.heads if given else len(own.key),
        heads=own.heads,
        causal=seen.causal(layer, kind),
        place=_place(seen, layer, kind),
        only=own.reason if given else "",
    )


def _shown(
    seen: Capture,
    weights: Tensor,
    sink: Tensor,
    allowed: Tensor,
    unit: str,
    special: str,
    first: bool,
    kind: str | None,
    between: str,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Return which queries and keys are shown, and what a view says of them."""
    if unit not in UNITS or special not in SPECIALS:
        raise ValueError(f"unit is one of {UNITS} and special one of {SPECIALS}, not {unit!r} and {special!r}")
    axes = seen.axes(kind)
    groups = seen.group_numbers(unit, kind)
    flags = [_special_groups([t.special for t in tokens], g) for tokens, g in zip(axes, groups, strict=True)]
    rows, columns = (torch.ones_like(f) if special == "shown" else ~f for f in flags)
    if not first:
        columns = columns & (torch.arange(len(columns)) > 0)
    if not rows.any() or not columns.any():  # nothing left: better shown than an empty picture
        rows, columns = torch.ones_like(rows), torch.ones_like(columns)
    if unit != "token":
        weights = group_weights(weights, *groups)
        sink = group_weights(sink[:, None], groups[0], torch.zeros(1, dtype=torch.long))[:, 0]
        allowed = group_weights(allowed.float(), *groups) > 0
    counted = columns  # of these, what is not shown is hidden, whatever happens to special tokens
    near, far = _sides(axes, groups, flags, between)
    if (rows & near).any() and (columns & far).any():
        rows, columns = rows & near, columns & far
    else:
        between = ""
    weights, sink = weights[rows], sink[rows]
    if special == "renormalised":
        left = weights[:, counted].sum(dim=-1) + sink  # not 1 − hidden, of which little is exact where nearly all is
        left = left.masked_fill(left == 0, 1.0)
        weights, sink = weights / left[:, None], sink / left
        hidden = weights[:, counted & ~columns].sum(dim=-1)
    else:
        hidden = weights[:, ~columns].sum(dim=-1)
    weights = weights[:, columns]
    labels = [
        tuple(label for label, keep in zip(names, kept.tolist(), strict=True) if keep)
        for names, kept in zip(seen.labels(unit, kind), (rows, columns), strict=True)
    ]
    pieces = [
        tuple(t.piece for t, keep in zip(tokens, kept.tolist(), strict=True) if keep) if unit == "token" else ()
        for tokens, kept in zip(axes, (rows, columns), strict=True)
    ]
    shown = {
        "queries": labels[0],
        "keys": labels[1],
        "query_places": tuple(rows.nonzero()[:, 0].tolist()),
        "key_places": tuple(columns.nonzero()[:, 0].tolist()),
        "special_queries": tuple(flags[0][rows].tolist()),
        "special_keys": tuple(flags[1][columns].tolist()),
        "pieces": pieces[0],
        "key_pieces": pieces[1],
        "kind": kind or seen.kinds[0],
        "between": between,
        "allowed": _array(allowed[rows][:, columns]),
        "weights": _array(weights),
        "hidden": _array(hidden),
        "sink": _array(sink),
    }
    return rows, columns, shown


def thumbnails(seen: Capture, layer: int, size: int = THUMBNAIL, kind: str | None = None) -> UInt8[ndarray, "H s z"]:
    """Return every head of a layer as a small picture: 0 for no weight, 255 for the largest weight of the picture.

    A text of more than ``size`` tokens is grouped into tiles, so that a picture never has more than size × size cells.
    """
    queries, keys = (tiles(len(tokens), size) for tokens in seen.axes(kind))
    pictures = []
    for head in range(seen.layer(layer, kind).heads):
        weights = group_weights(seen.weights(layer, head, kind=kind), queries, keys)
        pictures.append((weights / weights.max().clamp_min(1e-9) * 255).round().to(torch.uint8))
    return _array(torch.stack(pictures))


def _place(seen: Capture, layer: int, kind: str | None) -> int | None:
    place = seen.place(layer, kind)
    return None if place == layer else place


def _terms(own: Formula, size: int) -> tuple[tuple[str, float], ...]:
    found = {"factor": own.multiplier(size)}
    for name in TERMS:
        term = own.term(name)
        if isinstance(term, Tensor):
            found[name] = float(term) if term.numel() == 1 else math.nan
        elif term is not None and term is not False:
            found[name] = math.nan if term is True else float(term)
    return tuple(found.items())


def _nothing(shown: dict[str, Any]) -> Float[ndarray, "0 Q K"]:
    return _array(torch.zeros(0, *shown["weights"].shape))


def _sides(
    axes: tuple[tuple[Token, ...], ...], groups: tuple[Tensor, ...], special: list[Tensor], between: str
) -> list[Tensor]:
    """Return which groups are words of the sentence that looks, and of the one that is looked at; all if none is."""
    if between not in BETWEEN:
        raise ValueError(f"between is one of {BETWEEN}, not {between!r}")
    found = []
    for side, (tokens, numbers, flags) in enumerate(zip(axes, groups, special, strict=True)):
        segments = torch.zeros_like(flags, dtype=torch.long)
        segments[numbers] = torch.tensor([token.segment for token in tokens])
        found.append(~flags & (segments == "ab".index(between[side])) if between else torch.ones_like(flags))
    return found


def _special_groups(flags: list[bool], groups: Tensor) -> Tensor:
    special = torch.zeros(int(groups[-1]) + 1, dtype=torch.bool)
    special[groups[torch.tensor(flags)]] = True
    return special


def _array(tensor: Tensor) -> np.ndarray:
    array = tensor.numpy(force=True)
    array.setflags(write=False)  # shared by everyone who looks at the same head
    return array


def view_weights(
    queries: Sequence[str],
    keys: Sequence[str],
    weights: Float[ndarray, "Q K"],
    *,
    allowed: Bool[ndarray, "Q K"] | None = None,
    sink: Float[ndarray, " Q"] | None = None,
    places: tuple[Sequence[int | str], Sequence[int | str]] = ((), ()),
) -> HeadView:
    """Prepare weights of which nothing else is known for showing.

    Args:
        queries: Their labels.
        keys: Their labels.
        weights: What of a row is neither here nor in its sink is ``hidden``.
        allowed: Where a query may look; everywhere where it is left out.
        sink: The share of each row's sink.
        places: Where each query and each key stands.
    """
    rows, columns = weights.shape
    sink = np.zeros(rows, dtype=np.float32) if sink is None else sink
    nothing = np.zeros((0, rows, columns), dtype=np.float32)
    return HeadView(
        queries=tuple(queries),
        keys=tuple(keys),
        special_queries=(False,) * rows,
        special_keys=(False,) * columns,
        pieces=tuple(queries),
        raw=nothing,
        steps=nothing,
        step_names=(),
        final=nothing,
        allowed=np.ones((rows, columns), dtype=bool) if allowed is None else allowed,
        weights=weights,
        hidden=np.clip(1 - sink - weights.sum(axis=1), 0, 1),
        sink=sink,
        factor=1.0,
        size=0,
        group=0,
        groups=1,
        heads=1,
        causal=False,
        query_places=tuple(places[0]) or tuple(range(rows)),
        key_places=tuple(places[1]) or tuple(range(columns)),
    )
