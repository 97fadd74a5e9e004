"""Capture once, look anywhere: one forward pass keeps each layer's query, key and value; all views come from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from attention_core.dot_product import AttentionTrace, trace_attention
from attention_core.errors import NoTokens
from attention_core.formula import Formula
from attention_core.grouping import QUERY_BLOCK, grouped_attention, tiles
from attention_core.interface import LayerAttention, recording
from attention_core.models.loading import LoadedModel
from attention_core.tokens import Token, clean, group_labels, group_numbers, read_tokens

PLAIN = Formula()


class Link(NamedTuple):
    """One query looking at one key, with its weight."""

    query: int
    key: int
    weight: float


@dataclass(frozen=True)
class Capture:
    """What one forward pass left behind, and every view of it.

    Layers and heads count from 0. ``kind`` names the attention meant: "self", or in encoder-decoder models "encoder",
    "decoder" or "cross"; None means the first that the model has.

    Attributes:
        text: The text as the tokeniser got it; empty where a module was captured with inputs of its own.
        tokens: The tokens of the text, or of the module's input (in encoder-decoder models the encoder's).
        target: The decoder's tokens in encoder-decoder models; otherwise empty.
        attention: For each kind, what each layer was given.
        pretrained: False for a model that has weights which were never trained.
    """

    text: str
    tokens: tuple[Token, ...]
    target: tuple[Token, ...]
    attention: Mapping[str, tuple[LayerAttention, ...]]
    pretrained: bool

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of attention that this model has."""
        return tuple(self.attention)

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return len(self._layers(None))

    @property
    def heads(self) -> int:
        """How many query heads a layer has."""
        return len(self._layers(None)[0].query)

    @property
    def bytes(self) -> int:
        """How much memory the kept tensors take; a mask or bias that layers share counts once."""
        kept = [
            tensor
            for layers in self.attention.values()
            for a in layers
            for tensor in (a.query, a.key, a.value, a.formula.allowed, a.formula.bias)
            if tensor is not None
        ]
        return sum({tensor.data_ptr(): tensor.numel() * tensor.element_size() for tensor in kept}.values())

    def layer(self, layer: int, kind: str | None = None) -> LayerAttention:
        """Return what one layer was given.

        Raises:
            IndexError: If there is no such layer, naming how many there are.
            KeyError: If there is no such kind, naming those there are.
        """
        layers = self._layers(kind)
        if not 0 <= layer < len(layers):
            raise IndexError(f"layer {layer} does not exist: there are {len(layers)}, counted from 0")
        return layers[layer]

    def group(self, layer: int, head: int, kind: str | None = None) -> int:
        """Return the key-value head that a query head reads."""
        seen = self.layer(layer, kind)
        return head // (len(seen.query) // len(seen.key))

    def axes(self, kind: str | None = None) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """Return the tokens of the queries and of the keys."""
        kind = kind or self.kinds[0]
        return {"cross": (self.target, self.tokens), "decoder": (self.target, self.target)}.get(
            kind, (self.tokens, self.tokens)
        )

    def trace(self, layer: int, head: int, formula: Formula = PLAIN, kind: str | None = None) -> AttentionTrace:
        """Return every intermediate of one head: raw, scaled, weights (Q, K), context (Q, Dv) and each extra term.

        Args:
            layer: From 0.
            head: From 0.
            formula: What to change in the model's own formula; by default nothing.
            kind: Which attention, in encoder-decoder models.

        Raises:
            IndexError: If there is no such layer or head.
        """
        query, key, value, own = self._head(layer, head, kind)
        return trace_attention(query, key, value, own.changed(formula)).head(0)

    def weights(self, layer: int, head: int, formula: Formula = PLAIN, kind: str | None = None) -> Float[Tensor, "Q K"]:
        """Return the weights of one head: each row sums to 1 (less, with a sink)."""
        return self.trace(layer, head, formula, kind).weights

    def row(
        self, layer: int, head: int, query: int, formula: Formula = PLAIN, kind: str | None = None
    ) -> AttentionTrace:
        """Return every intermediate of one query's row, (1, K), without computing the others.

        Raises:
            IndexError: If there is no such layer, head or query.
        """
        return self._rows(layer, head, range(query, query + 1), formula, kind)

    def grouped(
        self, layer: int, head: int, by: str | int = "word", formula: Formula = PLAIN, kind: str | None = None
    ) -> Float[Tensor, "A B"]:
        """Return weights between groups: the sum over a group's keys, the mean over its queries. Rows still sum to 1.

        Args:
            layer: From 0.
            head: From 0.
            by: "token", "word", "sentence", or a number: at most so many tiles of the same size.
            formula: What to change in the model's own formula.
            kind: Which attention, in encoder-decoder models.
        """
        query, key, _, own = self._head(layer, head, kind)
        queries, keys = self.group_numbers(by, kind)
        return grouped_attention(query, key, own.changed(formula), queries, keys)[0]

    def group_numbers(self, by: str | int, kind: str | None = None) -> tuple[Int[Tensor, " Q"], Int[Tensor, " K"]]:
        """Return the group of each query and of each key, as runs of numbers from 0."""
        if isinstance(by, int) and by < 1:
            raise ValueError(f"there must be at least one tile, not {by}")
        queries, keys = (
            tiles(len(tokens), by) if isinstance(by, int) else torch.tensor(group_numbers(tokens, by, self.text))
            for tokens in self.axes(kind)
        )
        return queries, keys

    def labels(self, by: str | int = "token", kind: str | None = None) -> tuple[list[str], list[str]]:
        """Return readable names of the queries' and the keys' groups."""
        pairs = zip(self.axes(kind), self.group_numbers(by, kind), strict=True)
        if by == "token":
            queries, keys = ([token.label for token in tokens] for tokens, _ in pairs)
        else:
            queries, keys = (group_labels(tokens, numbers.tolist(), self.text) for tokens, numbers in pairs)
        return queries, keys

    def links(
        self, layer: int, head: int, k: int = 200, formula: Formula = PLAIN, kind: str | None = None
    ) -> tuple[Link, ...]:
        """Return the ``k`` strongest links of one head, strongest first; in memory is one block of rows at a time."""
        if k < 1:
            raise ValueError(f"ask for at least one link, not {k}")
        found: list[Link] = []
        positions = self._head(layer, head, kind)[0].shape[1]
        for start in range(0, positions, QUERY_BLOCK):
            block = range(start, min(start + QUERY_BLOCK, positions))
            weights = self._rows(layer, head, block, formula, kind).weights
            best = weights.flatten().topk(min(k, weights.numel()))
            rows, columns = best.indices // weights.shape[1], best.indices % weights.shape[1]
            links = zip((rows + start).tolist(), columns.tolist(), best.values.tolist(), strict=True)
            found = sorted(found + [Link(*link) for link in links], key=lambda link: -link.weight)[:k]
        return tuple(link for link in found if link.weight > 0)

    def _layers(self, kind: str | None) -> tuple[LayerAttention, ...]:
        kind = kind or self.kinds[0]
        if kind not in self.attention:
            raise KeyError(f"this model has no {kind!r} attention; it has {', '.join(self.kinds)}")
        return self.attention[kind]

    def _head(self, layer: int, head: int, kind: str | None) -> tuple[Tensor, Tensor, Tensor, Formula]:
        seen = self.layer(layer, kind)
        if not 0 <= head < len(seen.query):
            raise IndexError(f"head {head} does not exist: layer {layer} has {len(seen.query)}, counted from 0")
        group = self.group(layer, head, kind)
        return seen.query[head][None], seen.key[group][None], seen.value[group][None], seen.formula.head(head)

    def _rows(self, layer: int, head: int, rows: range, formula: Formula, kind: str | None) -> AttentionTrace:
        query, key, value, own = self._head(layer, head, kind)
        if not 0 <= rows.start < query.shape[1]:
            raise IndexError(f"query {rows.start} does not exist: there are {query.shape[1]}, counted from 0")
        part = own.changed(formula).block(rows, range(key.shape[1]), query.device)
        return trace_attention(query[:, rows.start : rows.stop], key, value, part).head(0)


def capture(model: LoadedModel | PreTrainedModel, text: str | None = None, **inputs: object) -> Capture:
    """Run a model once and keep what its attention layers were given.

    Args:
        model: From :func:`load_model`, or a transformers module that is already in memory.
        text: What to read; needs a loaded model, which brings its tokeniser.
        **inputs: Instead of a text, the module's own inputs, a batch of one: ``input_ids=…``, ``pixel_values=…``.
            With a text: ``parse_special=True``, to read ``[MASK]`` in it as the special token.

    Returns:
        The capture, its tensors in the model's precision and on its device.

    Raises:
        ValueError: If the text has no tokens, or more than the model takes; if a batch has more than one sequence.
        TypeError: If the model's attention can't be seen, or a text comes without a tokeniser.
    """
    target: tuple[Token, ...] = ()
    if text is None and not inputs:
        raise TypeError("give a text, or the module's own inputs such as input_ids=…")
    if not isinstance(text, str | None):
        raise TypeError(f"one text at a time, as a string, not {type(text).__name__}")
    if text is None:
        module = model.module if isinstance(model, LoadedModel) else model
        tokens = _number_tokens(inputs.get("input_ids"))
        target = _number_tokens(inputs.get("decoder_input_ids"))
    else:
        if not isinstance(model, LoadedModel):
            raise TypeError("a text needs a model from load_model(), which brings its tokeniser; or give input_ids=…")
        text = clean(text)
        tokens = read_tokens(model.tokenizer, text, parse_special=bool(inputs.pop("parse_special", False)))
        if all(token.added for token in tokens):
            raise NoTokens("the text has no tokens: it is empty or blank")
        if model.limit is not None and len(tokens) > model.limit:
            raise ValueError(f"the text has {len(tokens)} tokens; {model.name} takes {model.limit}")
        # The layers that predict the next word come after all attention.
        module = getattr(model.module, "base_model", model.module)
        inputs["input_ids"] = torch.tensor([[token.id for token in tokens]], device=model.module.device)
    with torch.no_grad(), recording(module) as record:
        module(**inputs, **({"use_cache": False} if hasattr(module.config, "use_cache") else {}))
    if not record.layers:
        raise TypeError(f"{type(module).__name__} ran, but none of its layers went through the attention interface")
    kinds = sorted({layer.kind for layer in record.layers}, key=("encoder", "decoder", "cross", "self").index)
    attention = {kind: tuple(layer for layer in record.layers if layer.kind == kind) for kind in kinds}
    if not tokens:
        tokens = _positions(attention[kinds[0]][0].query.shape[1])
    pretrained = model.pretrained if isinstance(model, LoadedModel) else bool(module.config.name_or_path)
    return Capture(text or "", tokens, target, attention, pretrained)


def _number_tokens(ids: Tensor | None) -> tuple[Token, ...]:
    numbers: Sequence[int] = [] if ids is None else ids[0].tolist()
    return tuple(Token(i, n, str(n), str(n), 0, 0, False, False, i) for i, n in enumerate(numbers))


def _positions(count: int) -> tuple[Token, ...]:
    return tuple(Token(i, -1, str(i), str(i), 0, 0, False, False, i) for i in range(count))
