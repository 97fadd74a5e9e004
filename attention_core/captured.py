"""Capture once, look anywhere: one forward pass keeps each layer's query, key and value; all views come from them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from attention_core.dot_product import AttentionTrace, scores, softmax, trace_attention
from attention_core.errors import WeightsOnly
from attention_core.formula import Formula
from attention_core.grouping import QUERY_BLOCK, group_weights, grouped_attention, tiles
from attention_core.inputs import Input
from attention_core.interface import LayerAttention, recording, without_cache
from attention_core.models.loading import LoadedModel
from attention_core.reading import Prepared, prepare, written_by
from attention_core.tokens import Token, group_labels, group_numbers
from attention_core.weights_only import LayerWeights, given_weights

PLAIN = Formula()
NUMBERED = re.compile(r"(.*?)\.?\b(\d+)(?:\.|$)")  # a layer's path: its stack, and its number there


class Link(NamedTuple):
    """One query looking at one key, with its weight."""

    query: int
    key: int
    weight: float


class Shares(NamedTuple):
    """What several heads of a layer look at, and where they may: all that there is of a model with weights only."""

    weights: Float[Tensor, "H Q K"]
    sink: Float[Tensor, "H Q"]
    allowed: Bool[Tensor, "H Q K"]


@dataclass(frozen=True)
class Capture:
    """What one forward pass left behind, and every view of it.

    Layers and heads count from 0. ``kind`` names the attention meant: "self", or in encoder-decoder models "encoder",
    "decoder" or "cross"; None means the first that the model has. Layers without attention are not counted: where there
    are some, ``skipped`` names them and :meth:`place` gives a layer's number in the model.

    A model whose attention does not go through transformers' interface hands out weights only (``scores`` is False):
    then :meth:`weights`, :meth:`grouped`, :meth:`links` and :meth:`shares` are there, and what needs scores raises
    :class:`WeightsOnly`, which says why.

    Attributes:
        text: The text as the tokeniser got it; of a pair both sentences, with a line break between; of a chat the whole
            template. Empty where a module was captured with inputs of its own.
        tokens: The tokens of the text, or of the module's input (in encoder-decoder models the encoder's).
        target: The decoder's tokens in encoder-decoder models; otherwise empty.
        attention: For each kind, what each layer was given, or the weights that it handed out.
        pretrained: False for a model that has weights which were never trained.
        skipped: The paths of the layers in which no attention was seen, such as state-space layers.
        target_text: The text of the decoder's tokens. Each of them is what the decoder was given at that position, so
            it comes before what the decoder is about to write there.
        written: Whether the model wrote the target itself.
    """

    text: str
    tokens: tuple[Token, ...]
    target: tuple[Token, ...]
    attention: Mapping[str, tuple[LayerAttention, ...] | tuple[LayerWeights, ...]]
    pretrained: bool
    skipped: tuple[str, ...] = ()
    target_text: str = ""
    written: bool = False

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
        return self._layers(None)[0].heads

    @property
    def scores(self) -> bool:
        """Whether there are scores; False where the model hands out weights only."""
        return isinstance(self._layers(None)[0], LayerAttention)

    @property
    def bytes(self) -> int:
        """How much memory the kept tensors take; a mask or bias that layers share counts once."""
        kept = [
            tensor
            for layers in self.attention.values()
            for a in layers
            for tensor in (
                (a.weights,)
                if isinstance(a, LayerWeights)
                else (a.query, a.key, a.value, a.formula.allowed, a.formula.bias)
            )
            if tensor is not None
        ]
        return sum({tensor.data_ptr(): tensor.numel() * tensor.element_size() for tensor in kept}.values())

    def layer(self, layer: int, kind: str | None = None) -> LayerAttention | LayerWeights:
        """Return what one layer was given, or handed out.

        Raises:
            IndexError: If there is no such layer, naming how many there are.
            KeyError: If there is no such kind, naming those there are.
        """
        layers = self._layers(kind)
        if not 0 <= layer < len(layers):
            raise IndexError(f"layer {layer} does not exist: there are {len(layers)}, counted from 0")
        return layers[layer]

    def place(self, layer: int, kind: str | None = None) -> int:
        """Return the number that a layer has in the model, from 0: another one where layers before it are skipped."""
        numbers = [int(found[2]) for one in self._layers(kind) if (found := NUMBERED.match(one.name))]
        own = len(set(numbers)) == len(self._layers(kind))  # else the layers share their parts, as in ALBERT
        return numbers[layer] if own else layer

    def causal(self, layer: int = 0, kind: str | None = None) -> bool:
        """Return whether a query may look only at itself and back."""
        seen = self.layer(layer, kind)
        if isinstance(seen, LayerWeights):
            return kind not in ("encoder", "cross") and not seen.weights.triu(1).any()
        return bool(seen.formula.term("causal"))

    def group(self, layer: int, head: int, kind: str | None = None) -> int:
        """Return the key-value head that a query head reads; where that can't be seen, each is given its own."""
        seen = self.layer(layer, kind)
        if isinstance(seen, LayerWeights):
            return head
        return head // (len(seen.query) // len(seen.key))

    def only(self, kind: str) -> "Capture":
        """Return the same with one kind of attention alone, which is then the one meant everywhere.

        Raises:
            KeyError: If there is no such kind, naming those there are.
        """
        return replace(self, attention={kind: self._layers(kind)})

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
            WeightsOnly: If the model hands out weights only.
        """
        query, key, value, own = self._head(layer, head, kind)
        return trace_attention(query, key, value, own.changed(formula)).head(0)

    def shares(self, layer: int, kind: str | None = None, heads: Sequence[int] | None = None) -> Shares:
        """Return the weights of some heads of a layer (by default all), the shares of their sinks, and what is allowed.

        Of a model that hands out weights only, a key counts as allowed where any head gives it weight.
        """
        own = self.layer(layer, kind)
        picked = list(range(own.heads) if heads is None else heads)
        if isinstance(own, LayerWeights):
            weights = own.weights[picked]
            allowed = (own.weights > 0).any(dim=0).expand_as(weights)
            return Shares(weights, torch.zeros_like(weights[..., 0]), allowed)
        groups = [self.group(layer, head, kind) for head in picked]
        formula = own.formula.heads(picked)
        _, scaled, steps, allowed = scores(own.query[picked], own.key[groups], formula)
        weights, sink = softmax(steps[-1].scores if steps else scaled, allowed, formula.term("sink"))
        return Shares(weights, sink, allowed)

    def weights(self, layer: int, head: int, formula: Formula = PLAIN, kind: str | None = None) -> Float[Tensor, "Q K"]:
        """Return the weights of one head: each row sums to 1 (less, with a sink)."""
        given = self._given(layer, head, formula, kind)
        return self.trace(layer, head, formula, kind).weights if given is None else given

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
        queries, keys = self.group_numbers(by, kind)
        if (given := self._given(layer, head, formula, kind)) is not None:
            return group_weights(given, queries, keys)
        query, key, _, own = self._head(layer, head, kind)
        return grouped_attention(query, key, own.changed(formula), queries, keys)[0]

    def group_numbers(self, by: str | int, kind: str | None = None) -> tuple[Int[Tensor, " Q"], Int[Tensor, " K"]]:
        """Return the group of each query and of each key, as runs of numbers from 0."""
        if isinstance(by, int) and by < 1:
            raise ValueError(f"there must be at least one tile, not {by}")
        queries, keys = (
            tiles(len(tokens), by) if isinstance(by, int) else torch.tensor(group_numbers(tokens, by, text))
            for tokens, text in zip(self.axes(kind), self._texts(kind), strict=True)
        )
        return queries, keys

    def labels(self, by: str | int = "token", kind: str | None = None) -> tuple[list[str], list[str]]:
        """Return readable names of the queries' and the keys' groups."""
        sides = zip(self.axes(kind), self.group_numbers(by, kind), self._texts(kind), strict=True)
        if by == "token":
            queries, keys = ([token.label for token in tokens] for tokens, _, _ in sides)
        else:
            queries, keys = (group_labels(tokens, numbers.tolist(), text) for tokens, numbers, text in sides)
        return queries, keys

    def links(
        self, layer: int, head: int, k: int = 200, formula: Formula = PLAIN, kind: str | None = None
    ) -> tuple[Link, ...]:
        """Return the ``k`` strongest links of one head, strongest first; in memory is one block of rows at a time."""
        if k < 1:
            raise ValueError(f"ask for at least one link, not {k}")
        found: list[Link] = []
        positions = len(self.axes(kind)[0])
        for start in range(0, positions, QUERY_BLOCK):
            block = range(start, min(start + QUERY_BLOCK, positions))
            weights = self._block(layer, head, block, formula, kind)
            best = weights.flatten().topk(min(k, weights.numel()))
            rows, columns = best.indices // weights.shape[1], best.indices % weights.shape[1]
            links = zip((rows + start).tolist(), columns.tolist(), best.values.tolist(), strict=True)
            found = sorted(found + [Link(*link) for link in links], key=lambda link: -link.weight)[:k]
        return tuple(link for link in found if link.weight > 0)

    def _texts(self, kind: str | None) -> tuple[str, str]:
        """Return the texts of the queries and of the keys."""
        kind = kind or self.kinds[0]
        return {"cross": (self.target_text, self.text), "decoder": (self.target_text, self.target_text)}.get(
            kind, (self.text, self.text)
        )

    def _layers(self, kind: str | None) -> tuple[LayerAttention, ...] | tuple[LayerWeights, ...]:
        kind = kind or self.kinds[0]
        if kind not in self.attention:
            raise KeyError(f"this model has no {kind!r} attention; it has {', '.join(self.kinds)}")
        return self.attention[kind]

    def _head(self, layer: int, head: int, kind: str | None) -> tuple[Tensor, Tensor, Tensor, Formula]:
        seen = self._checked(layer, head, kind)
        if isinstance(seen, LayerWeights):
            raise WeightsOnly(
                seen.model, f"weights only: {seen.reason}", "look at its weights, or choose another model"
            )
        group = self.group(layer, head, kind)
        return seen.query[head][None], seen.key[group][None], seen.value[group][None], seen.formula.head(head)

    def _checked(self, layer: int, head: int, kind: str | None) -> LayerAttention | LayerWeights:
        seen = self.layer(layer, kind)
        if not 0 <= head < seen.heads:
            raise IndexError(f"head {head} does not exist: layer {layer} has {seen.heads}, counted from 0")
        return seen

    def _given(self, layer: int, head: int, formula: Formula, kind: str | None) -> Float[Tensor, "Q K"] | None:
        """Return the weights that the model handed out; None where they are computed from scores."""
        seen = self._checked(layer, head, kind)
        if not isinstance(seen, LayerWeights):
            return None
        if not formula.plain:
            self._head(layer, head, kind)  # says that there is no formula to change
        return seen.weights[head]

    def _block(self, layer: int, head: int, rows: range, formula: Formula, kind: str | None) -> Float[Tensor, "q K"]:
        given = self._given(layer, head, formula, kind)
        if given is None:
            return self._rows(layer, head, rows, formula, kind).weights
        return given[rows.start : rows.stop]

    def _rows(self, layer: int, head: int, rows: range, formula: Formula, kind: str | None) -> AttentionTrace:
        query, key, value, own = self._head(layer, head, kind)
        if not 0 <= rows.start < query.shape[1]:
            raise IndexError(f"query {rows.start} does not exist: there are {query.shape[1]}, counted from 0")
        part = own.changed(formula).block(rows, range(key.shape[1]), query.device)
        return trace_attention(query[:, rows.start : rows.stop], key, value, part).head(0)


def capture(
    model: LoadedModel | PreTrainedModel,
    text: str | Input | None = None,
    second: str = "",
    *,
    parse_special: bool = False,
    chat: bool = False,
    written: Sequence[int] = (),
    **inputs: object,
) -> Capture:
    """Run a model once and keep what its attention layers were given.

    Args:
        model: From :func:`load_model`, or a transformers module that is already in memory.
        text: What to read; needs a loaded model, which brings its tokeniser. An :class:`Input` says the rest as well.
        second: The second sentence of a pair, for models such as BERT; in encoder-decoder models the target, which the
            model otherwise writes itself, always the most probable token.
        parse_special: Whether ``[MASK]`` typed in the text is read as the special token.
        chat: Whether the text is put into the tokeniser's chat template.
        written: What the model wrote as its target, where that is known already.
        **inputs: Instead of a text, the module's own inputs, a batch of one: ``input_ids=…``, ``pixel_values=…``.

    Returns:
        The capture, its tensors in the model's precision and on its device.

    Raises:
        ValueError: If the text has no tokens, or more than the model takes; if a batch has more than one sequence.
        TypeError: If no weights of the model can be seen, or a text comes without a tokeniser.
        TokeniserTooLarge: If the model has no embedding for one of the text's tokens.
    """
    if text is None and not inputs:
        raise TypeError("give a text, or the module's own inputs such as input_ids=…")
    if not isinstance(text, str | Input | None):
        raise TypeError(f"one text at a time, as a string, not {type(text).__name__}")
    if text is None:
        module = model.module if isinstance(model, LoadedModel) else model
        if not isinstance(module, PreTrainedModel):
            raise TypeError(f"give a transformers model (a PreTrainedModel), not {type(module).__name__}")
        for name in ("input_ids", "decoder_input_ids"):
            ids = inputs.get(name)
            if isinstance(ids, Tensor) and (ids.ndim != 2 or not ids.numel()):
                raise ValueError(f"{name} are a batch of one sequence, (1, T) with T > 0, not {tuple(ids.shape)}")
        from attention_core.windows import capture_windows, has_windows

        if has_windows(module):
            pretrained = model.pretrained if isinstance(model, LoadedModel) else bool(module.config.name_or_path)
            return capture_windows(module, inputs, pretrained=pretrained)
        tokens = _number_tokens(inputs.get("input_ids"))
        read = Prepared("", tokens, "", _number_tokens(inputs.get("decoder_input_ids")), False, inputs)
    else:
        if not isinstance(model, LoadedModel):
            raise TypeError("a text needs a model from load_model(), which brings its tokeniser; or give input_ids=…")
        asked = text if isinstance(text, Input) else Input(text, second, parse_special, chat, "cross")
        looked_at = asked.kind in ("decoder", "cross")  # else nobody waits for the target to be written
        read = prepare(model, asked, (written or written_by(model, asked)) if looked_at else ())
        # The layers that predict the next word come after all attention.
        module = getattr(model.module, "base_model", model.module)
        inputs |= read.inputs
    tokens, target = read.tokens, read.target
    layers = _layers(module, inputs)
    kinds = sorted({layer.kind for layer in layers}, key=("encoder", "decoder", "cross", "self").index)
    attention = {kind: tuple(layer for layer in layers if layer.kind == kind) for kind in kinds}
    lengths = {kind: _length(of, type(module).__name__) for kind, of in attention.items()}
    tokens = tokens or _positions(lengths["cross"][1] if kinds[0] == "decoder" else lengths[kinds[0]][0])
    if "decoder" in kinds and not target:  # a decoder that makes its own input, of the encoder's or of nothing
        target = _positions(lengths["decoder"][0])
    pretrained = model.pretrained if isinstance(model, LoadedModel) else bool(module.config.name_or_path)
    more = {"target_text": read.target_text, "written": read.written}
    seen = Capture(read.text, tokens, target, attention, pretrained, _skipped(module, layers), **more)
    for kind, (queries, keys) in lengths.items():
        if (queries, keys) != tuple(len(side) for side in seen.axes(kind)):
            sizes = " × ".join(str(len(side)) for side in seen.axes(kind))
            raise TypeError(f"{type(module).__name__} has weights of {queries} × {keys}, which are no tokens: {sizes}")
    return seen


def _layers(module: PreTrainedModel, inputs: Mapping[str, object]) -> Sequence[LayerAttention | LayerWeights]:
    inputs = {**inputs, **without_cache(module)}
    if not module._can_set_attn_implementation():
        return given_weights(module, inputs)
    with torch.no_grad(), recording(module) as record:
        module(**inputs)
    return record.layers or given_weights(module, inputs)


def _length(layers: Sequence[LayerAttention | LayerWeights], model: str) -> tuple[int, int]:
    found = {
        tuple(of.weights.shape[1:]) if isinstance(of, LayerWeights) else (of.query.shape[1], of.key.shape[1])
        for of in layers
    }
    if len(found) > 1:
        raise TypeError(
            f"{model} has layers that look at different things, of {len(found)} sizes, such as a text and a picture: "
            "capture one of its parts, with that part's own inputs"
        )
    return found.pop()


def _skipped(module: nn.Module, layers: Sequence[LayerAttention | LayerWeights]) -> tuple[str, ...]:
    """Name the layers in which no attention was seen, beside those in which it was."""
    stacks: dict[str, set[int]] = {}
    for layer in layers:
        if found := NUMBERED.match(layer.name):
            stacks.setdefault(found[1], set()).add(int(found[2]))
    missing = [
        f"{stack}.{number}"
        for stack, numbers in stacks.items()
        for number in range(len(module.get_submodule(stack)))
        if number not in numbers
    ]
    kinds = {layer.kind for layer in layers}
    return (*missing, *(["encoder"] if "decoder" in kinds and "encoder" not in kinds else []))


def _number_tokens(ids: Tensor | None) -> tuple[Token, ...]:
    numbers: Sequence[int] = [] if ids is None else ids[0].tolist()
    return tuple(Token(i, n, str(n), str(n), 0, 0, False, False, i) for i, n in enumerate(numbers))


def _positions(count: int) -> tuple[Token, ...]:
    return tuple(Token(i, -1, str(i), str(i), 0, 0, False, False, i) for i in range(count))
