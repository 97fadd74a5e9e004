"""The attention function that Gaze registers with transformers: it computes a layer fast and keeps what it was given.

A model that is set to it behaves exactly as with "sdpa". Only inside :func:`recording` are query, key, value and the
formula of each layer kept: references to tensors that exist anyway, so memory grows with the text, not with its square.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from attention_core.dot_product import trace_attention
from attention_core.factor import USUAL, FactorSource, factor_source
from attention_core.formula import Formula

NAME = "gaze"


@dataclass(frozen=True)
class LayerAttention:
    """What one attention layer was given: after rotation and normalisation of query and key, before the dot product.

    Attributes:
        query: (H, Q, D), in the model's precision and on its device.
        key: (G, K, D).
        value: (G, K, Dv).
        formula: How this layer turns scores into weights.
        kind: "self"; in encoder-decoder models "encoder", "decoder" or "cross".
        name: The module's path in the model.
        source: Where the formula's factor comes from.
        window: How far it looks, as the layer was told: nearer than so many positions; the formula of a layer that
            looks both ways holds this as a mask.
    """

    query: Float[Tensor, "H Q D"]
    key: Float[Tensor, "G K D"]
    value: Float[Tensor, "G K Dv"]
    formula: Formula
    kind: str
    name: str
    source: FactorSource = USUAL
    window: int | None = None

    @property
    def heads(self) -> int:
        """How many query heads there are."""
        return len(self.query)


@dataclass
class Recording:
    """The layers met so far, in the order of their computing; ``windows`` takes what is a batch of windows instead."""

    names: dict[int, str]
    two_stacks: bool
    windows: Callable[..., None] | None = None
    layers: list[LayerAttention] = field(default_factory=list)
    masks: dict[tuple[int, bool, int | None], tuple[Tensor, Formula]] = field(default_factory=dict)

    def add(self, layer: LayerAttention) -> None:
        """Keep a layer.

        Raises:
            TypeError: If it looks twice with the same queries, as in differential attention.
        """
        if self.layers and self.layers[-1].query.data_ptr() == layer.query.data_ptr():
            raise TypeError(
                f"{layer.name} looks twice with the same queries and combines what comes back (differential "
                "attention), which the weights of one head can't show"
            )
        self.layers.append(layer)

    def kind(self, module: nn.Module) -> str:
        """Say which of an encoder-decoder's three kinds of attention a module is."""
        if not self.two_stacks:
            return "self"
        name = self.names.get(id(module), "").lower()
        if any(part in name for part in ("encdecattention", "encoder_attn", "crossattention", "cross_attn")):
            return "cross"
        return "encoder" if "encoder" in name else "decoder"


@dataclass(frozen=True)
class Attended:
    """One layer's attention in a forward pass, for who wants to change what comes of it.

    Attributes:
        query: (B, H, Q, D), after rotation and normalisation.
        key: (B, G, K, D).
        value: (B, G, K, Dv).
        kind: "self"; in encoder-decoder models "encoder", "decoder" or "cross".
        formula: Gives the formula of one sequence of the batch.
    """

    query: Float[Tensor, "B H Q D"]
    key: Float[Tensor, "B G K D"]
    value: Float[Tensor, "B G K Dv"]
    kind: str
    formula: Callable[[int], Formula]


Change = Callable[[Attended, Float[Tensor, "B Q H Dv"]], Float[Tensor, "B Q H Dv"]]
_anatomies: WeakKeyDictionary[PreTrainedModel, tuple[dict[int, str], list[PreTrainedConfig]]] = WeakKeyDictionary()
_current: ContextVar[Recording | None] = ContextVar("recording", default=None)
_change: ContextVar[tuple[Change, Recording] | None] = ContextVar("change", default=None)
_other: ContextVar["tuple[Attends, Recording] | None"] = ContextVar("other", default=None)


@runtime_checkable
class Attends(Protocol):
    """Another way to compute the layers and to make the masks of a forward pass, such as in pieces."""

    def attend(
        self,
        module: nn.Module,
        query: Float[Tensor, "1 H Q D"],
        key: Float[Tensor, "1 G K D"],
        value: Float[Tensor, "1 G K Dv"],
        mask: Tensor | None,
        kwargs: dict,
        record: Recording,
    ) -> Float[Tensor, "1 Q H Dv"]:
        """Compute one layer."""

    def mask(self, *args: object, **kwargs: object) -> Tensor | None:
        """Make a mask, from what transformers hands to a function that makes masks."""


@contextmanager
def recording(module: PreTrainedModel, windows: Callable[..., None] | None = None) -> Iterator[Recording]:
    """Switch a model to Gaze's attention function, keep what its layers are given, and set everything back afterwards.

    In a model that looks in windows, ``windows`` is handed what each layer is given instead.

    Raises:
        TypeError: If the model's attention does not go through transformers' attention interface.
    """
    with _switched(module) as record:
        record.windows = windows
        with _set(_current, record):
            yield record


@contextmanager
def changing(module: PreTrainedModel, change: Change) -> Iterator[None]:
    """Switch a model to Gaze's attention function, and let ``change`` have a say in what each layer hands on.

    Raises:
        TypeError: If the model's attention does not go through transformers' attention interface.
    """
    with _switched(module) as anatomy, _set(_change, (change, anatomy)):
        yield


@contextmanager
def attending(module: PreTrainedModel, other: Attends) -> Iterator[None]:
    """Switch a model to Gaze's attention function, and let ``other`` compute its layers and make its masks.

    Raises:
        TypeError: If the model's attention does not go through transformers' attention interface.
    """
    with _switched(module) as anatomy, _set(_other, (other, anatomy)):
        yield


@contextmanager
def _set(variable: ContextVar, value: object) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def _switched(module: PreTrainedModel) -> Iterator[Recording]:
    if not module._can_set_attn_implementation():
        raise TypeError(
            f"{type(module).__name__} computes attention in a way of its own, not through transformers' attention "
            "interface, so its queries and keys can't be seen"
        )
    names, configs = _anatomy(module)
    before = [config._attn_implementation for config in configs]
    training = module.training
    if set(before) != {NAME}:
        module.set_attn_implementation(NAME)
    if training:
        module.eval()
    try:
        yield Recording(names, bool(module.config.is_encoder_decoder))
    finally:
        if training:
            module.train()
        for config, name in zip(configs, before, strict=True):
            config._attn_implementation_internal = name


def _anatomy(module: PreTrainedModel) -> tuple[dict[int, str], list[PreTrainedConfig]]:
    """Return the path of every part and the configurations in use; once a model, since a walk takes milliseconds."""
    if module not in _anatomies:
        configs = {id(part.config): part.config for part in module.modules() if isinstance(part, PreTrainedModel)}
        _anatomies[module] = {id(part): name for name, part in module.named_modules()}, list(configs.values())
    return _anatomies[module]


def without_cache(module: nn.Module) -> dict[str, bool]:
    """Return the argument that keeps a model from filling a cache that nobody reads; none where it knows no cache."""
    return {"use_cache": False} if hasattr(module.config, "use_cache") else {}


def gaze_attention(
    module: nn.Module,
    query: Float[Tensor, "B H Q D"],
    key: Float[Tensor, "B G K D"],
    value: Float[Tensor, "B G K Dv"],
    attention_mask: Tensor | None,
    **kwargs: object,
) -> tuple[Float[Tensor, "B Q H Dv"], None]:
    """Compute one layer as transformers' "sdpa" does, with soft-cap and sink as well; keep what it was given."""
    if (found := _other.get()) is not None:
        other, anatomy = found
        return other.attend(module, query, key, value, attention_mask, kwargs, anatomy), None
    record, changed = _current.get(), _change.get()
    if record is not None and record.windows is not None:
        record.windows(query, key, value, attention_mask, kwargs)
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    special = kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None

    def formula(n: int) -> Formula:
        whole = attention_mask is None or len(attention_mask) == 1
        mask = attention_mask if whole else attention_mask[n : n + 1]
        return _read_formula(module, query, mask, kwargs, record if len(query) == 1 else None)

    if record is not None:
        if len(query) != 1:
            raise ValueError(
                f"one sequence at a time: this batch has {len(query)}, or the model cuts its input into as many windows"
            )
        own, window = formula(0), kwargs.get("sliding_window")
        source = factor_source(module, own.factor, query.shape[-1])
        name = record.names.get(id(module), "")
        record.add(LayerAttention(query[0], key[0], value[0], own, record.kind(module), name, source, window))
    if special:
        each = enumerate(zip(query, key, value, strict=True))
        output = torch.stack([_one_by_one(*layer, formula(n)) for n, layer in each])
    else:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    if changed is not None:
        change, anatomy = changed
        output = change(Attended(query, key, value, anatomy.kind(module), formula), output)
    return output, None


def _one_by_one(
    query: Float[Tensor, "H Q D"], key: Float[Tensor, "G K D"], value: Float[Tensor, "G K Dv"], formula: Formula
) -> Float[Tensor, "Q H Dv"]:
    """Compute a layer with terms that no fused kernel knows: head by head, one matrix of scores in memory."""
    share = len(query) // len(key)
    contexts = [
        trace_attention(query[h][None], key[h // share][None], value[h // share][None], formula.head(h)).context
        for h in range(len(query))
    ]
    return torch.cat(contexts).transpose(0, 1).contiguous().to(value.dtype)


def _read_formula(
    module: nn.Module, query: Tensor, mask: Tensor | None, kwargs: dict, record: Recording | None
) -> Formula:
    is_causal = kwargs.get("is_causal")
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    window = kwargs.get("sliding_window")
    formula = Formula(
        factor=kwargs.get("scaling"),
        softcap=kwargs.get("softcap"),
        sink=None if kwargs.get("s_aux") is None else kwargs["s_aux"].detach().flatten(),
    )
    bias = kwargs.get("position_bias")
    if bias is not None and bias.any():  # cross-attention in T5 has one of zeros: no term at all
        formula = formula.changed(Formula(bias=bias[0]))
    if mask is None:
        causal = bool(is_causal) and query.shape[2] > 1
        return formula.changed(Formula(causal=causal, window=window if causal else None))
    memory = record.masks if record is not None else {}
    key = (id(mask), bool(is_causal), window)
    if key not in memory:
        # The mask is kept with it: once it is gone, the next layer's may get its id (BEiT makes one for each layer).
        memory[key] = mask, _read_mask(mask[0], bool(is_causal), window)
    return formula.changed(memory[key][1])


def _read_mask(mask: Tensor, is_causal: bool, window: int | None) -> Formula:
    """Say in words what a mask tensor says in numbers, where words suffice: causal, and a window."""
    bias = None
    if mask.dtype != torch.bool:
        allowed = mask > torch.finfo(mask.dtype).min / 2
        bias = mask.masked_fill(~allowed, 0.0)
        mask, bias = allowed, bias if bias.any() else None
    if (is_causal or window) and len(mask) == 1 and mask.shape[-1] == mask.shape[-2]:
        said = Formula(causal=is_causal, window=window)
        span = range(mask.shape[-1])
        if torch.equal(mask, said.block(span, span, mask.device).allowed):
            return said.changed(Formula(bias=bias))
    return Formula(allowed=None if mask.all() else mask, bias=bias)


def gaze_mask(*args: object, **kwargs: object) -> Tensor | None:
    """Make a mask as transformers' "sdpa" has it."""
    found = _other.get()
    return sdpa_mask(*args, **kwargs) if found is None else found[0].mask(*args, **kwargs)


AttentionInterface.register(NAME, gaze_attention)
AttentionMaskInterface.register(NAME, gaze_mask)  # without this, transformers drops every mask silently
