"""What if: a head's attention is changed inside the model, and the model runs on with what comes of it.

A layer is computed fast as ever; only the heads that are edited are computed again, in blocks of rows, so memory grows
with the text and not with its square. Without an edit, nothing is touched: the output is the same to the last bit.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import PreTrainedModel

from attention_core.captured import Capture
from attention_core.dot_product import trace_attention
from attention_core.formula import Formula
from attention_core.grouping import QUERY_BLOCK
from attention_core.interface import Attended, changing

PLAIN = Formula()


@dataclass(frozen=True)
class Edit:
    """What to change in one head. The changes are made in this order: formula, cut, weights, scale.

    Attributes:
        formula: Changes of the head's own formula: ``Formula(scaled=False)``, ``Formula(without=("causal",))`` …
        cut: Links, as pairs of query and key, both from 0, that are cut: the softmax runs over the keys that are left.
            A query without any gets a context of zero. Links beyond the end of the text wait until it has grown.
        weights: What takes the place of the weights: "uniform", over the keys that a query may look at; the number of
            a key, which gets all from every query that may look at it (the others stay as they are); or weights from
            elsewhere, (Q, K), as they are.
        scale: What the head's output is multiplied by; 0 switches the head off.

    Raises:
        TypeError: If ``weights`` is none of these.
        ValueError: If ``scale`` is no number, or a link does not count from 0.
    """

    formula: Formula = PLAIN
    cut: Collection[tuple[int, int]] = ()
    weights: Float[Tensor, "Q K"] | Literal["uniform"] | int | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        weights = self.weights
        number = isinstance(weights, int) and not isinstance(weights, bool)
        if not (weights is None or number or isinstance(weights, Tensor) or weights == "uniform"):
            raise TypeError(f'weights are "uniform", the number of a key, a tensor or None, not {weights!r}')
        if not math.isfinite(self.scale):
            raise ValueError(f"scale is a number, not {self.scale}")
        if any(place < 0 for link in self.cut for place in link):
            raise ValueError("links are pairs of query and key, both counted from 0")

    @property
    def scales_only(self) -> bool:
        """Whether the weights stay as they are."""
        return self.formula.plain and not self.cut and self.weights is None


OFF = Edit(scale=0.0)
Edits = Mapping[tuple[int, int], Edit]  # by layer and head, both from 0


@contextmanager
def editing(module: PreTrainedModel, *edits: Edits, kind: str | None = None) -> Iterator[None]:
    """Edit heads in every forward pass of a model inside the block; a capture inside it sees what becomes of the rest.

    Args:
        module: A transformers model whose attention goes through the attention interface.
        *edits: For all sequences of a batch; or as many as the batch has, one for each.
        kind: Which attention, in encoder-decoder models: "encoder", "decoder" or "cross"; None is the first there is.

    Raises:
        TypeError: If the model's attention does not go through the interface.
        IndexError: In the forward pass, if a layer or head does not exist, after the last layer for a layer.
        ValueError: In the forward pass, if weights do not fit, or the batch is another.

    Example:
        with editing(model.module, {(5, 11): OFF}):
            seen = capture(model, "I ate the cake and it was delicious")
    """
    for one in (one for some in edits for one in some.values()):
        if not isinstance(one, Edit):
            raise TypeError(f"an edit is an Edit, such as OFF, not {one!r}")
    if not any(edits):
        yield
        return
    editor = _Editor(edits, kind)
    base = getattr(module, "base_model", module)
    hooks = [base.register_forward_pre_hook(editor.begin), base.register_forward_hook(editor.end)]
    try:
        with changing(module, editor):
            yield
    finally:
        for hook in hooks:
            hook.remove()


def edited_weights(seen: Capture, layer: int, head: int, edit: Edit, kind: str | None = None) -> Float[Tensor, "Q K"]:
    """Return the weights that an edit leaves in a head of a capture; ``scale`` is no matter of weights."""
    query, key, value, own = seen._head(layer, head, kind)
    return _rows(query[0], key[0], value[0], own, edit, range(query.shape[1]))[0]


@dataclass
class _Editor:
    edits: Sequence[Edits]
    kind: str | None
    met: dict[str, int] = field(default_factory=dict)

    def begin(self, *_: object) -> None:
        self.met = {}

    def end(self, *_: object) -> None:
        layers = self.met.get(self.kind or next(iter(self.met), ""), 0)
        if missing := {layer for edits in self.edits for layer, _ in edits if not 0 <= layer < layers}:
            raise IndexError(f"layer {min(missing)} does not exist: there are {layers}, counted from 0")

    def __call__(self, seen: Attended, output: Float[Tensor, "B Q H Dv"]) -> Float[Tensor, "B Q H Dv"]:
        self.met.setdefault(seen.kind, 0)
        self.met[seen.kind] += 1
        layer, batch = self.met[seen.kind] - 1, len(output)
        if seen.kind != (self.kind or next(iter(self.met))):
            return output
        each = self.edits * batch if len(self.edits) == 1 else self.edits
        if len(each) != batch:
            raise ValueError(f"{len(each)} edits do not fit a batch of {batch}: give one for all, or one for each")
        todo = [(n, head, edit) for n, edits in enumerate(each) for (at, head), edit in edits.items() if at == layer]
        if not todo:
            return output
        output = output.clone()
        for n, head, edit in todo:
            if not 0 <= head < output.shape[2]:
                raise IndexError(f"head {head} does not exist: layer {layer} has {output.shape[2]}, counted from 0")
            if not edit.scales_only:
                group = head // (seen.query.shape[1] // seen.key.shape[1])
                head_of = seen.query[n, head], seen.key[n, group], seen.value[n, group]
                output[n, :, head] = _context(*head_of, seen.formula(n).head(head), edit).to(output.dtype)
            if edit.scale != 1:
                output[n, :, head] = output[n, :, head] * edit.scale
        return output


def _context(
    query: Float[Tensor, "Q D"], key: Float[Tensor, "K D"], value: Float[Tensor, "K Dv"], own: Formula, edit: Edit
) -> Float[Tensor, "Q Dv"]:
    positions, keys = len(query), len(key)
    if isinstance(edit.weights, Tensor) and edit.weights.shape != (positions, keys):
        told = " × ".join(map(str, edit.weights.shape))
        raise ValueError(f"weights of {told} do not fit {positions} queries × {keys} keys")
    blocks = (range(start, min(start + QUERY_BLOCK, positions)) for start in range(0, positions, QUERY_BLOCK))
    return torch.cat([_rows(query, key, value, own, edit, rows)[1] for rows in blocks])


def _rows(
    query: Float[Tensor, "Q D"],
    key: Float[Tensor, "K D"],
    value: Float[Tensor, "K Dv"],
    own: Formula,
    edit: Edit,
    rows: range,
) -> tuple[Float[Tensor, "q K"], Float[Tensor, "q Dv"]]:
    """Return the weights and the context of some queries, edited."""
    part = own.changed(edit.formula).block(rows, range(len(key)), query.device)
    part = _cut(part, rows, len(key), len(query), edit.cut, query.device)
    trace = trace_attention(query[rows.start : rows.stop][None], key[None], value[None], part).head(0)
    weights = _replaced(trace.weights, trace.allowed, edit.weights, rows)
    return weights, trace.context if weights is trace.weights else weights @ value.to(weights.dtype)


def _cut(
    part: Formula, rows: range, keys: int, positions: int, cut: Collection[tuple[int, int]], device: torch.device
) -> Formula:
    # Where earlier keys come from a cache, the first query of this pass is not the first of the text.
    before = keys - positions if keys > positions else 0
    here = [(query - before - rows.start, key) for query, key in cut if query - before in rows and 0 <= key < keys]
    if not here:
        return part
    allowed = torch.ones(1, len(rows), keys, dtype=torch.bool, device=device)
    at = torch.tensor(here, device=device)
    allowed[0, at[:, 0], at[:, 1]] = False
    return replace(part, allowed=allowed if part.allowed is None else allowed & part.allowed)


def _replaced(
    weights: Float[Tensor, "q K"],
    allowed: Bool[Tensor, "q K"],
    told: Float[Tensor, "Q K"] | str | int | None,
    rows: range,
) -> Float[Tensor, "q K"]:
    if told is None:
        return weights
    if isinstance(told, Tensor):
        return told[rows.start : rows.stop].to(weights)
    if told == "uniform":
        return allowed / allowed.sum(dim=-1, keepdim=True).clamp(min=1)
    if not 0 <= told < weights.shape[1]:
        raise IndexError(f"key {told} does not exist: there are {weights.shape[1]}, counted from 0")
    all_of_it = torch.zeros_like(weights)
    all_of_it[:, told] = 1
    return torch.where(allowed[:, told, None], all_of_it, weights)
