"""Attention heads of transformers models: capture once, look anywhere.

    from attention_core import load_model, capture, Formula

    seen = capture(load_model("minilm"), "I ate the cake and it was delicious")
    seen.weights(layer=5, head=11)

Names are loaded when they are first used, since torch and transformers take seconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attention_core.captured import Capture as Capture
    from attention_core.captured import Link as Link
    from attention_core.captured import capture as capture
    from attention_core.dot_product import AttentionTrace as AttentionTrace
    from attention_core.dot_product import trace_attention as trace_attention
    from attention_core.formula import Formula as Formula
    from attention_core.inputs import Input as Input
    from attention_core.models.loading import LoadedModel as LoadedModel
    from attention_core.models.loading import load_model as load_model
    from attention_core.tokens import Token as Token

_HOMES = {
    "captured": ("Capture", "Link", "capture"),
    "dot_product": ("AttentionTrace", "trace_attention"),
    "formula": ("Formula",),
    "inputs": ("Input",),
    "models.loading": ("LoadedModel", "load_model"),
    "tokens": ("Token",),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
