"""Where a head's factor comes from: the size of one head, or a number in the model's configuration."""

import math
from typing import NamedTuple

from torch import Tensor, nn

SCALES = ("scal", "multiplier")  # a field is meant that speaks of both: of scaling, and of attention
ATTENTION = ("attn", "attention", "softmax", "query", "qk")
INTO_AND_OUT_OF = ("_in_", "_out_", "logit")  # what multiplies something else than scores
BY_LAYER = "scale_attn_by_inverse_layer_idx"
FOLDED = ("t5", "switch_transformers", "pix2struct", "pop2piano", "udop")


class FactorSource(NamedTuple):
    """What explains a factor.

    Attributes:
        way: "size": it is 1/√dₖ; "root": 1/√value; "itself": the value; "inverse": 1/value; "layer": 1/√dₖ, divided by
            the layer's number (the value); "before": 1, since the query has been multiplied by the value already;
            "folded": 1, as in T5, whose weights were first drawn so small that it needs none; "none": 1; "own": nothing
            explains it.
        field: The field's name: of the configuration, or with "before" of the attention module.
        value: What stands there.
    """

    way: str = "size"
    field: str = ""
    value: float = 0.0


USUAL = FactorSource()


def factor_source(module: nn.Module, factor: Tensor | float | None, size: int) -> FactorSource:
    """Explain the factor of an attention layer.

    Args:
        module: The module that calls the attention, which has the model's configuration as ``config``.
        factor: What it hands over; None means 1/√dₖ.
        size: dₖ, the size of one head.

    Returns:
        What explains it to 6 digits; a number of the configuration goes before 1/√dₖ, also where both are the same.
    """
    if isinstance(factor, Tensor):  # a number for each feature or head, learned
        return FactorSource("own")
    usual = 1 / math.sqrt(size)
    factor = usual if factor is None else factor
    config = getattr(module, "config", None)
    told = {} if config is None else vars(config)
    for name, value in told.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and _means_scores(name):
            ways = {"root": 1 / math.sqrt(value), "itself": float(value), "inverse": 1 / value}
            for way, number in ways.items():
                if _same(factor, number) and not (value == 1 and way != "itself"):
                    return FactorSource(way, name, float(value))
    if _same(factor, usual):
        return USUAL
    number = getattr(module, "layer_idx", None)
    if told.get(BY_LAYER) is True and number is not None and _same(factor, usual / (number + 1)):
        return FactorSource("layer", BY_LAYER, number + 1)
    if factor == 1:
        if isinstance(before := getattr(module, "scaling", None), float) and before != 1:
            return FactorSource("before", "scaling", before)
        kind = str(getattr(config, "model_type", ""))
        return FactorSource("folded" if any(name in kind for name in FOLDED) else "none")
    return FactorSource("own")


def _means_scores(name: str) -> bool:
    has = lambda parts: any(part in name for part in parts)  # noqa: E731
    return has(SCALES) and has(ATTENTION) and not has(INTO_AND_OUT_OF)


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6)
