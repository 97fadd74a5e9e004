"""Scaled dot-product attention that keeps every intermediate.

Shape letters, here and everywhere: H query heads, G key-value heads, Q query positions, K key positions, D features of
one head, Dv features of one value, T where Q = K. ``allowed`` is True where a query may look at a key.
"""

import math
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_core.formula import Formula


@dataclass(frozen=True)
class Step:
    """The scores after one more term of the formula than √dₖ: its name (of ``formula.TERMS``, or temperature)."""

    name: str
    scores: Float[Tensor, "*H Q K"]


@dataclass(frozen=True)
class AttentionTrace:
    """Every intermediate of one attention call, in the order in which they come about.

    Each row of ``weights``, plus its ``sink``, sums to 1; a row in which nothing is allowed is all zero.

    Attributes:
        raw: QKᵀ.
        factor: What raw scores were multiplied by.
        scaled: raw × factor.
        steps: The scores after each extra term (soft-cap, bias, temperature); empty for plain attention.
        allowed: True where a query may look at a key.
        weights: The softmax over the allowed keys.
        sink: The share of each row that went to the head's sink; zero without one.
        context: weights · V.
    """

    raw: Float[Tensor, "*H Q K"]
    factor: float
    scaled: Float[Tensor, "*H Q K"]
    steps: tuple[Step, ...]
    allowed: Bool[Tensor, "*H Q K"]
    weights: Float[Tensor, "*H Q K"]
    sink: Float[Tensor, "*H Q"]
    context: Float[Tensor, "*H Q Dv"]

    @property
    def final(self) -> Float[Tensor, "*H Q K"]:
        """The scores that enter the softmax."""
        return self.steps[-1].scores if self.steps else self.scaled

    def head(self, head: int) -> "AttentionTrace":
        """Return one head, without the head axis."""
        tensors = {f.name: getattr(self, f.name) for f in fields(self)}
        steps = tuple(Step(step.name, step.scores[head]) for step in self.steps)
        return replace(self, steps=steps, **{n: t[head] for n, t in tensors.items() if isinstance(t, Tensor)})


def trace_attention(
    query: Float[Tensor, "H Q D"],
    key: Float[Tensor, "G K D"],
    value: Float[Tensor, "G K Dv"],
    formula: Formula = Formula(),
) -> AttentionTrace:
    """Attend, and keep what is usually thrown away.

    Args:
        query: What each position looks for.
        key: What each position offers; head h reads group h // (H // G).
        value: What each position hands over.
        formula: Scaling factor and extra terms.

    Returns:
        Raw and scaled scores, weights (each row sums to 1, or is all zero where nothing is allowed) and context, in
        float32 at least, whatever the precision of the input.

    Raises:
        ValueError: If the sizes do not fit, naming both.

    Source: Vaswani et al. 2017, equation 1; grouped heads: Ainslie et al. 2023.

    Example:
        >>> q = k = v = torch.eye(2)[None]
        >>> trace_attention(q, k, v).weights.sum(dim=-1)
        tensor([[1., 1.]])
    """
    if key.shape[:2] != value.shape[:2]:
        raise ValueError(f"keys {tuple(key.shape[:2])} and values {tuple(value.shape[:2])} must be as many")
    raw, scaled, steps, allowed = scores(query, key, formula)
    weights, sink = softmax(steps[-1].scores if steps else scaled, allowed, formula.term("sink"))
    value = value.to(raw.dtype).repeat_interleave(len(query) // len(value), dim=0)
    factor = formula.multiplier(query.shape[-1])
    return AttentionTrace(raw, factor, scaled, steps, allowed, weights, sink, weights @ value)


def scores(
    query: Float[Tensor, "H Q D"], key: Float[Tensor, "G K D"], formula: Formula
) -> tuple[Float[Tensor, "H Q K"], Float[Tensor, "H Q K"], tuple[Step, ...], Bool[Tensor, "H Q K"]]:
    """Compute all that comes before the softmax: raw scores, scaled scores, extra steps, and what is allowed.

    Raises:
        ValueError: If the sizes do not fit, naming both.
    """
    heads, groups = len(query), len(key)
    if heads % groups:
        raise ValueError(f"{heads} query heads can't share {groups} key-value heads evenly")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"a query has {query.shape[-1]} features and a key {key.shape[-1]}; they must be the same")
    precise = torch.promote_types(query.dtype, torch.float32)
    formula = formula.block(range(query.shape[1]), range(key.shape[1]), query.device)

    raw = query.to(precise) @ key.to(precise).repeat_interleave(heads // groups, dim=0).mT
    scaled = raw * formula.multiplier(query.shape[-1])
    allowed = torch.ones_like(raw, dtype=torch.bool)
    if formula.allowed is not None:
        allowed = allowed & formula.allowed
    return raw, scaled, _extra_steps(scaled, formula), allowed


def _extra_steps(scores: Float[Tensor, "H Q K"], formula: Formula) -> tuple[Step, ...]:
    steps = []
    if (cap := formula.term("softcap")) is not None:
        steps.append(Step("softcap", scores := (scores / cap).tanh() * cap))
    if (bias := formula.term("bias")) is not None:
        steps.append(Step("bias", scores := scores + bias.to(scores.dtype)))
    if formula.temperature != 1:
        steps.append(Step("temperature", scores / formula.temperature))
    return tuple(steps)


def softmax(
    scores: Float[Tensor, "H Q K"], allowed: Bool[Tensor, "H Q K"], sink: Float[Tensor, " H"] | None = None
) -> tuple[Float[Tensor, "H Q K"], Float[Tensor, "H Q"]]:
    """Turn each row of scores into shares of 1 among the allowed keys, and among them and the sink where there is one.

    The largest score of a row is subtracted first (softmax does not change by it), so that no score overflows.

    Returns:
        The weights, all zero in a row in which nothing is allowed, and the share of the sink.
    """
    scores = scores.masked_fill(~allowed, -math.inf)
    if sink is None:
        # A row of −∞ alone has no softmax; its weights are zero, not NaN.
        weights = scores.softmax(dim=-1).masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)
        return weights, torch.zeros_like(weights[..., 0])
    column = sink.to(scores.dtype)[:, None, None].expand(-1, scores.shape[1], 1)
    weights = torch.cat([scores, column], dim=-1).softmax(dim=-1)
    return weights[..., :-1], weights[..., -1]
