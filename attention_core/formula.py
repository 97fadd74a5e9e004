"""The formula of one attention layer: what happens between raw scores and weights, and a learner's changes to it."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

TERMS = ("softcap", "bias", "causal", "window", "allowed", "sink")


@dataclass(frozen=True)
class Formula:
    """Scores become weights in this order: × factor, soft-cap, + bias, ÷ temperature, mask, softmax (with a sink).

    Every field left at its default means "as it is": as the plain formula where one is computed by hand, as the model
    really does where a formula is handed to :meth:`Capture.trace`. So ``Formula(scaled=False)`` is "the same head
    without its factor".

    Attributes:
        scaled: False leaves the factor out.
        factor: What raw scores are multiplied by; None means 1/√D, D being the size of one head.
        softcap: Scores become cap · tanh(scores / cap) (Gemma 2).
        bias: Added to the scores, such as T5's position bias; first axis 1 or one a head.
        temperature: The last scores are divided by it.
        causal: Position i may look at 0..i only.
        window: Position i may look no further back than i − window + 1; without a causal mask of the model's own, at
            positions nearer than ``window`` on both sides.
        allowed: True where a query may look at a key, for every other kind of mask.
        sink: A score a head that takes part in the softmax and has no value, so that rows sum to less than 1 (GPT-OSS).
        without: Names of the terms (of ``TERMS``) that are left out.
    """

    scaled: bool = True
    factor: float | None = None
    softcap: float | None = None
    bias: Float[Tensor, "#H Q K"] | None = None
    temperature: float = 1.0
    causal: bool = False
    window: int | None = None
    allowed: Bool[Tensor, "#H Q K"] | None = None
    sink: Float[Tensor, " H"] | None = None
    without: Collection[str] = ()

    def __post_init__(self) -> None:
        """Refuse what has no meaning, so that no page can show it."""
        if not self.temperature > 0:
            raise ValueError(f"temperature must be above 0, not {self.temperature}")
        if unknown := set(self.without) - set(TERMS):
            raise ValueError(f"without names terms that do not exist: {sorted(unknown)}; there are {TERMS}")

    def changed(self, changes: "Formula") -> "Formula":
        """Return this formula with every field that ``changes`` sets."""
        defaults = {field.name: field.default for field in fields(changes)}
        return replace(self, **{n: getattr(changes, n) for n, d in defaults.items() if getattr(changes, n) is not d})

    @property
    def plain(self) -> bool:
        """Whether every field is left at its default."""
        values = ((getattr(self, field.name), field.default) for field in fields(self))
        return all(
            value is default or (not isinstance(value, Tensor) and value == default) for value, default in values
        )

    def term(self, name: str) -> "Tensor | float | int | bool | None":
        """Return one of ``TERMS``, or None where it is absent or left out."""
        return None if name in self.without else getattr(self, name)

    def multiplier(self, size: int) -> float:
        """Return the number that raw scores are multiplied by; ``size`` is D, the size of one head."""
        if not self.scaled:
            return 1.0
        return 1 / math.sqrt(size) if self.factor is None else self.factor

    def head(self, head: int) -> "Formula":
        """Return the formula of one head, its tensors with a first axis of 1."""
        return self.heads([head])

    def heads(self, heads: Sequence[int]) -> "Formula":
        """Return the formula of some heads."""

        def pick(tensor: Tensor | None) -> Tensor | None:
            return tensor if tensor is None or tensor.shape[0] == 1 else tensor[list(heads)]

        return replace(self, bias=pick(self.bias), allowed=pick(self.allowed), sink=pick(self.sink))

    def block(self, queries: range, keys: range, device: torch.device | None = None) -> "Formula":
        """Return the formula of a block of queries × keys, causal and window written out as ``allowed``.

        Long texts are computed block by block, so that no tensor of queries × keys is ever made for them.
        """
        rows = slice(queries.start, queries.stop)
        columns = slice(keys.start, keys.stop)
        bias, allowed = self.term("bias"), self.term("allowed")
        allowed = None if allowed is None else allowed[:, rows, columns]
        distance = None
        if self.term("causal") or self.term("window"):
            q = torch.arange(queries.start, queries.stop, device=device)
            k = torch.arange(keys.start, keys.stop, device=device)
            distance = (q[:, None] - k)[None]
        if self.term("causal"):
            allowed = distance >= 0 if allowed is None else allowed & (distance >= 0)
        if self.term("window"):
            near = (distance if self.causal else distance.abs()) < self.window
            allowed = near if allowed is None else allowed & near
        return replace(
            self,
            bias=None if bias is None else bias[:, rows, columns],
            allowed=allowed,
            causal=False,
            window=None,
            without=[name for name in self.without if name not in ("causal", "window", "allowed")],
        )

    def sees(self, queries: range, keys: range) -> bool:
        """Return False where causal mask or window rule out a whole block, so that it can be skipped."""
        if self.term("causal") and keys.start > queries[-1]:
            return False
        if not (window := self.term("window")):
            return True
        ahead = keys.start - queries[-1] >= window and not self.causal
        return not (queries.start - keys[-1] >= window or ahead)

    def sees_all(self, queries: range, keys: range) -> bool:
        """Return whether neither causal mask nor window rule out anything of a block, so that it needs no mask."""
        if self.term("causal") and keys[-1] > queries.start:
            return False
        if not (window := self.term("window")):
            return True
        ahead = keys[-1] - queries.start >= window and not self.causal
        return not (queries[-1] - keys.start >= window or ahead)
