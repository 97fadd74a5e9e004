"""Long texts: a head's map in tiles, any part of it down to single tokens, exact, in memory that grows with the text.

:func:`begin` reads a text and :func:`step` takes its forward pass a little further, layer by layer; of each layer the
queries and the keys are kept. Maps are made of them, a few queries at a time. All torch work is done by jobs of the
compute thread, none of which takes longer than some hundredths of a second.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from numpy import ndarray

from attention_core import compute, job_log
from attention_core.errors import NotNumbers, NoTokens, TokeniserTooLarge, WeightsOnly
from attention_core.settings import settings

if TYPE_CHECKING:
    from torch import Tensor

    from attention_core.formula import Formula
    from attention_core.models.loading import LoadedModel
    from attention_core.patience import Paused

MOST_TOKENS = 32_768
MOST_TILES = 256  # a side of a map
SMALL = 48  # a side of a small map
PROBE = "I ate the cake and it was delicious"  # read first, to see how many layers and heads there are
PER_TOKEN = 8  # characters of a token that are counted on, at first


@dataclass(frozen=True)
class LongReading:
    """What is known of a long text before the model has gone through it. T tokens.

    Attributes:
        name: By which the other functions know this text, read by this model.
        text: As much of it as is read.
        starts: Where each token's characters begin in the text, (T,).
        ends: Where they end; the same place for a token that stands for none.
        names: The labels of tokens that stand for no characters, or for part of one, by position.
        cut: How many words at the end are left out.
        limit: How many tokens there may be.
        bound: Why no more: "gaze", the "model", or "memory".
        layers: How many layers have attention.
        heads: How many query heads a layer has.
        device: Where it is computed.
        half: Whether it is the encoder alone of an encoder-decoder model.
    """

    name: str
    text: str
    starts: Int[ndarray, " T"]
    ends: Int[ndarray, " T"]
    names: dict[int, str]
    cut: int
    limit: int
    bound: str
    layers: int
    heads: int
    device: str
    half: bool

    @property
    def tokens(self) -> int:
        """How many tokens are read."""
        return len(self.starts)

    def words(self, low: int, high: int) -> str:
        """Return the text of the tokens from ``low`` up to and without ``high``, with the names of those without."""
        typed = [n for n in range(low, high) if self.starts[n] < self.ends[n]]
        if not typed:
            return " ".join(self.names[n] for n in range(low, high))
        text = self.text[self.starts[typed[0]] : self.ends[typed[-1]]]
        before, after = range(low, typed[0]), range(typed[-1] + 1, high)
        return " ".join([*(self.names[n] for n in before), text, *(self.names[n] for n in after)])

    def parts(self, spans: Sequence[range]) -> list[str]:
        """Return the text of runs of tokens, one behind the other, each with the spaces after it."""
        found, after = [], int(self.ends[spans[0].start : spans[-1].stop].max())
        for span in reversed(spans):
            typed = [n for n in span if self.starts[n] < self.ends[n]]
            start = int(self.starts[typed[0]]) if typed else after
            before = [self.names[n] + " " for n in span if n in self.names and (not typed or n < typed[0])]
            behind = [" " + self.names[n] for n in span if n in self.names and typed and n > typed[-1]]
            text = self.text[start:after] or " ".join(self.names.get(n, "") for n in typed)  # a part of one character
            found.append("".join([*before, text, *behind]))
            after = start
        return found[::-1]


class Progress(NamedTuple):
    """How far a forward pass has come.

    Attributes:
        done: How many layers were reached; their maps can be drawn, of those that are kept.
        layers: How many there are.
        kept: Which of them are kept, from 0.
        seconds: How long it has taken.
    """

    done: int
    layers: int
    kept: tuple[int, ...]
    seconds: float


class Region(NamedTuple):
    """Some queries and some keys: from the first up to and without the last, from 0."""

    row: int
    row_end: int
    column: int
    column_end: int

    def sizes(self, most: int = MOST_TILES) -> tuple[int, int]:
        """Return how many queries and how many keys are one tile, so that there are at most ``most`` on a side."""
        return -(-(self.row_end - self.row) // most), -(-(self.column_end - self.column) // most)


@dataclass(frozen=True)
class LongMap:
    """One head's weights between the tiles of a region. A tiles of queries, B of keys.

    Attributes:
        region: What it shows.
        sizes: How many queries and how many keys a tile has; the last one of a side may have fewer.
        weights: The sum over a tile's keys, the mean over its queries; each row, plus its sink and what it has outside
            the region, sums to 1.
        sink: The mean share of the head's sink.
        allowed: Whether any query of a tile may look at any of its keys.
    """

    region: Region
    sizes: tuple[int, int]
    weights: Float[ndarray, "A B"]
    sink: Float[ndarray, " A"]
    allowed: Bool[ndarray, "A B"]

    def queries(self, tile: int) -> range:
        """Return the queries of a tile."""
        low = self.region.row + tile * self.sizes[0]
        return range(low, min(low + self.sizes[0], self.region.row_end))

    def keys(self, tile: int) -> range:
        """Return the keys of a tile."""
        low = self.region.column + tile * self.sizes[1]
        return range(low, min(low + self.sizes[1], self.region.column_end))

    def links(self, count: int) -> list[tuple[int, int, float]]:
        """Return the strongest links: tile of queries, tile of keys, weight; the strongest first, none that is 0."""
        flat = self.weights.ravel()
        count = min(count, flat.size)
        best = np.argpartition(-flat, count - 1)[:count]
        best = best[np.lexsort((best, -flat[best]))]
        rows, columns = np.unravel_index(best, self.weights.shape)
        found = zip(rows.tolist(), columns.tolist(), flat[best].tolist(), strict=True)
        return [link for link in found if link[2] > 0]


class Gone(LookupError):
    """A text is no longer kept, or a layer of it is not: it has to be read (again)."""


@dataclass
class Run:
    """A text on its way through a model; only the compute thread touches it."""

    model: str
    title: str
    layers: int
    tokens: int
    bound: float
    paused: "Paused"
    wanted: int = 0
    done: int = 0
    seconds: float = 0.0
    kept: "dict[int, tuple[Tensor, Tensor, Formula]]" = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """How much memory the kept tensors take."""
        return sum(query.nbytes + key.nbytes for query, key, _ in self.kept.values())

    def keep(self, query: "Tensor", key: "Tensor", formula: "Formula") -> None:
        """Keep a layer; where there is no room for all, those that are farthest from the one that is wanted go."""
        if query.isnan().any():
            raise NotNumbers(self.title, f"layer {self.done + 1}", "choose another model")
        # What is part of a larger tensor would keep all of it.
        own = (of if of.untyped_storage().nbytes() <= of.nbytes else of.clone() for of in (query, key))
        self.kept[self.done] = (*own, formula)
        self.done += 1
        while self.bytes > self.bound and len(self.kept) > 1:
            del self.kept[max(self.kept, key=lambda layer: abs(layer - self.wanted))]
        if self.done == self.layers:  # what comes after the last layer's keys changes no map
            raise _Enough

    def progress(self) -> Progress:
        """Return how far it is."""
        return Progress(self.done, self.layers, tuple(sorted(self.kept)), self.seconds)


class _Enough(Exception):
    pass


_runs: "OrderedDict[str, Run]" = OrderedDict()


def begin(model: str, text: str, most: int = MOST_TOKENS, *, again: bool = False) -> LongReading:
    """Read a text, and get ready to send it through a model; nothing is sent yet. From any thread.

    Args:
        model: Its name.
        text: Any text.
        most: How many tokens at most; the model's limit, and memory, may set fewer.
        again: Whether to start anew what is on its way already, for instance for a layer that is not kept.

    Raises:
        NoTokens: If the tokeniser leaves nothing of the text.
        ModelError: If the model can't be loaded, or its scores can't be seen.
    """
    layers, heads, limit, bound, half = compute.run(_shape, model, most)
    kept, cut, ids, spans, device = compute.run(_encoded, model, text, limit)
    tokenizer = compute.run(compute._model, model).tokenizer
    from attention_core.tokens import name_tokens

    tokens = name_tokens(tokenizer, ids, spans, kept)
    if all(token.added for token in tokens):
        raise NoTokens("the text has no tokens: it is empty or blank")
    name = hashlib.sha256("\0".join((model, str(limit), kept)).encode(errors="replace")).hexdigest()[:24]
    starts, ends = (np.array([getattr(t, side) for t in tokens], dtype=np.int32) for side in ("start", "end"))
    names = {token.index: token.label for token in tokens if token.start == token.end or token.parts > 1}
    compute.run(_start, model, name, ids, layers, again=again)
    return LongReading(name, kept, starts, ends, names, cut, limit, bound, layers, heads, device, half)


def step(name: str, layer: int) -> Progress:
    """Take a text a little further; ``layer`` is what somebody waits for. From any thread.

    Raises:
        Gone: If the text is no longer kept.
        ModelError: If the model fails with it.
    """
    return compute.run(_step, name, layer)


def progress(name: str) -> Progress | None:
    """Say how far a text is; None where it is no longer kept. From any thread."""
    return compute.run(lambda: _runs[name].progress() if name in _runs else None)


def region_map(
    name: str,
    layer: int,
    head: int,
    region: Region,
    most: int = MOST_TILES,
    tell: Callable[[float], object] = lambda share: None,
) -> LongMap:
    """Compute one head's map of a region, in pieces. From any thread.

    Args:
        name: Of the text.
        layer: From 0.
        head: From 0.
        region: What to show.
        most: How many tiles there are on a side, at most.
        tell: Called after each piece with how much is done, 0 to 1.

    Raises:
        Gone: If the text, or this layer of it, is not kept.
        ValueError: If the region is empty or reaches beyond the text.
    """
    work = _Mapping(name, layer, head, region, region.sizes(most))
    while not work.done:
        compute.run(work.step)
        tell(work.share)
    return work.found


class _Mapping:
    """One head's map of a region, a few queries at a time. In the compute thread."""

    what = "region_map"

    def __init__(self, name: str, layer: int, head: int, region: Region, sizes: tuple[int, int]) -> None:
        self._of, self._region, self._sizes = (name, layer, head), region, sizes
        self._left: list[range] | None = None  # pieces, the next one last
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []
        self.found: LongMap | None = None
        self.share = 0.0

    @property
    def done(self) -> bool:
        """Whether the map is there."""
        return self.found is not None

    def step(self) -> None:
        """Compute a piece more."""
        (name, layer, _), region, sizes = self._of, self._region, self._sizes
        run = _kept(name)
        job_log.note(run.model, run.tokens, None, stored=False)
        if self._left is None:
            self._left = _pieces(name, layer, region, sizes[0])[::-1]
        piece = self._left.pop()
        self._parts.append(_part(*self._of, piece, region, sizes))
        self.share = (piece.stop - region.row) / (region.row_end - region.row)
        if self._left:
            return
        weights, sink = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
        allowed = _allowed(name, layer, region, sizes) | (weights > 0)
        for array in (weights, sink, allowed):
            array.setflags(write=False)  # shared by everyone who looks at it
        self.found = LongMap(region, sizes, weights, sink, allowed)


def small_maps(
    name: str, layer: int, heads: int, region: Region, tell: Callable[[float], object] = lambda share: None
) -> UInt8[ndarray, "H s z"]:
    """Draw every head of a layer small: 0 for no weight, 255 for the largest weight of its picture. From any thread."""
    pictures = []
    for head in range(heads):
        found = region_map(name, layer, head, region, SMALL).weights
        pictures.append(np.round(found / max(float(found.max()), 1e-9) * 255).astype(np.uint8))
        tell((head + 1) / heads)
    return np.stack(pictures)


def _shape(model: str, most: int) -> tuple[int, int, int, str, bool]:
    loaded, seen = compute._model(model), compute._seen(model, PROBE, 64)
    if not seen.scores:
        own = seen.layer(0)
        raise WeightsOnly(loaded.title, f"weights only: {own.reason}", "choose another model for a long text")
    layers = [seen.layer(n) for n in range(seen.layers)]
    each = sum((of.query[:, :1].nbytes + of.key[:, :1].nbytes) for of in layers) / len(layers)
    bounds = {"gaze": min(most, MOST_TOKENS), "memory": max(1, int(_room() / each))}  # at least one layer must fit
    bounds["model"] = loaded.limit or bounds["gaze"]
    bound = min(bounds, key=lambda name: (bounds[name], name != "model"))
    return seen.layers, seen.heads, bounds[bound], bound, seen.kinds[0] == "encoder"


def _room() -> float:
    return settings().long_mb * 2**20


def _encoded(model: str, text: str, limit: int) -> tuple[str, int, list[int], list[tuple[int, int]], str]:
    """Cut a text to what fits; of a very long one no more is tokenised than may be needed."""
    from attention_core.tokens import clean, encode, fit

    loaded = compute._model(model)
    text, letters = clean(text), PER_TOKEN * limit
    kept, tokens, _ = fit(loaded.tokenizer, text[:letters], limit)
    while tokens <= limit and letters < len(text):
        letters *= 2
        kept, tokens, _ = fit(loaded.tokenizer, text[:letters], limit)
    cut = len(text[len(kept) :].split())
    ids, spans = encode(loaded.tokenizer, kept)
    known = loaded.embeddings
    if known is not None and (beyond := [n for n in ids if n >= known]):
        reason = f"{loaded.tokenizer.convert_ids_to_tokens(beyond[0])!r} = {beyond[0]} > {known - 1}"
        raise TokeniserTooLarge(loaded.title, reason, "leave it out of the text, or choose another model")
    return kept, cut, list(ids), list(spans), loaded.device


def _start(model: str, name: str, ids: list[int], layers: int, *, again: bool) -> None:
    from attention_core.patience import Paused

    if again and name in _runs:
        _runs.pop(name).paused.close()
    if name in _runs:
        _runs.move_to_end(name)
        return
    loaded = compute._model(model)
    run = Run(model, loaded.title, layers, len(ids), _room(), Paused(lambda paused: _forward(loaded, ids, run, paused)))
    _runs[name] = run


def _forward(loaded: "LoadedModel", ids: list[int], run: Run, paused: "Paused") -> None:
    import torch

    from attention_core.interface import without_cache
    from attention_core.patience import in_pieces

    module = getattr(loaded.module, "base_model", loaded.module)
    if module.config.is_encoder_decoder:
        module = module.get_encoder()
    with in_pieces(module, paused, run.keep):
        try:
            module(input_ids=torch.tensor([ids], device=loaded.input_device), **without_cache(module))
        except _Enough:
            return


def _step(name: str, layer: int) -> Progress:
    run = _kept(name)
    run.wanted = layer
    start, ended = time.perf_counter(), run.paused.done
    with compute._visible(run.model):
        try:
            run.paused.step()
        except BaseException:
            _runs.pop(name).paused.close()
            raise
    run.seconds += time.perf_counter() - start
    if run.paused.done and not ended:
        job_log.write("read_long", run.model, run.tokens, run.seconds)
    if run.paused.done and run.done < run.layers:  # a model that left layers out for this text
        run.layers = run.done
    while len(_runs) > 1 and sum(other.bytes for other in _runs.values()) > _room():
        _runs.pop(next(iter(_runs))).paused.close()
    return run.progress()


def _kept(name: str) -> Run:
    if name not in _runs:
        raise Gone("this text is no longer kept: read it again")
    _runs.move_to_end(name)
    return _runs[name]


def _layer(name: str, layer: int) -> "tuple[Tensor, Tensor, Formula]":
    run = _kept(name)
    if layer not in run.kept:
        raise Gone(f"layer {layer} of this text is not kept: read it again")
    return run.kept[layer]


def _pieces(name: str, layer: int, region: Region, size: int) -> list[range]:
    """Cut the queries of a region into pieces, each of whole tiles and none much longer than a step."""
    from attention_core.patience import PIECE

    query, key, _ = _layer(name, layer)
    rows, columns = region[:2], region[2:]
    for (low, high), most in ((rows, query.shape[1]), (columns, key.shape[1])):
        if not 0 <= low < high <= most:
            raise ValueError(f"a region from {low} to {high} does not fit a text of {most} tokens")
    each = max(1, int(PIECE / (2 * key.shape[1] * query.shape[-1])) // size) * size
    return [range(start, min(start + each, rows[1])) for start in range(*rows, each)]


def _part(
    name: str, layer: int, head: int, piece: range, region: Region, sizes: tuple[int, int]
) -> tuple[Float[ndarray, "a B"], Float[ndarray, " a"]]:
    from attention_core.grouping import region_attention

    query, key, formula = _layer(name, layer)
    group = head // (len(query) // len(key))
    columns = range(region.column, region.column_end)
    own = query[head : head + 1], key[group : group + 1], formula.head(head)
    weights, sink = region_attention(*own, piece, columns, sizes)
    return weights.float().numpy(force=True), sink.float().numpy(force=True)


def _allowed(name: str, layer: int, region: Region, sizes: tuple[int, int]) -> Bool[ndarray, "A B"]:
    """Return which tiles the causal mask and the window leave open; other masks say it by weights of 0."""
    _, _, formula = _layer(name, layer)
    row, column = (np.arange(region[2 * n], region[2 * n + 1], sizes[n]) for n in (0, 1))
    row_last, column_last = (np.minimum(low + sizes[n], region[2 * n + 1]) - 1 for n, low in enumerate((row, column)))
    if formula.term("allowed") is not None:
        return np.zeros((len(row), len(column)), dtype=bool)
    allowed = np.ones((len(row), len(column)), dtype=bool)
    if formula.term("causal"):
        allowed &= column <= row_last[:, None]
    if window := formula.term("window"):
        allowed &= row[:, None] - column_last < window
        if not formula.causal:
            allowed &= column - row_last[:, None] < window
    return allowed
