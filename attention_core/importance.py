"""Which heads matter: what becomes of an outcome without a head, what its gradient foretells, and where the head looks.

Where a head looks and what it does for the outcome are different things (Jain & Wallace 2019; Wiegreffe & Pinter 2019):
here both are numbers of the same heads, side by side.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from attention_core.dot_product import trace_attention
from attention_core.edits import OFF, Edits, editing
from attention_core.generating import _writes, scores_of
from attention_core.interface import Attended, changing
from attention_core.models.loading import LoadedModel
from attention_core.outcomes import Outcome, Token

PASSES = 600  # tokens × layers in one piece of work


@torch.no_grad()
def outcome_of(model: LoadedModel, ids: Int[Tensor, "1 T"], outcome: Outcome, edits: Edits | None = None) -> float:
    """Return an outcome, with some heads edited."""
    with editing(model.module, edits or {}):
        return float(outcome(model, ids))


@torch.no_grad()
def knocked_out(
    model: LoadedModel, ids: Int[Tensor, "1 T"], outcome: Outcome, heads: Sequence[tuple[int, int]]
) -> Float[Tensor, " N"]:
    """Return the outcome without each of some heads, switched off one at a time: one batch, a head for each sequence.

    Args:
        model: What reads.
        ids: The text's tokens.
        outcome: What is asked.
        heads: Layer and head of each, from 0.
    """
    with editing(model.module, *({head: OFF} for head in heads)):
        return outcome(model, ids.expand(len(heads), -1))


@dataclass(eq=False)
class KnockedOut:
    """The outcome without each of some heads, as :func:`knocked_out`, but a long text is read in pieces.

    That takes a model that keeps keys and values, and an outcome after the last token; else there is one piece.

    Attributes:
        model: What reads.
        ids: The text's tokens.
        outcome: What is asked.
        heads: Layer and head of each, from 0.
        most: About how many tokens a piece has, those of all heads' sequences together.
        found: (N) outcomes, once it is done.
    """

    model: LoadedModel
    ids: Int[Tensor, "1 T"]
    outcome: Outcome
    heads: Sequence[tuple[int, int]]
    most: int
    found: Float[Tensor, " N"] | None = None
    read: int = 0
    cache: Any = None

    @property
    def done(self) -> bool:
        """Whether the outcomes are found."""
        return self.found is not None

    @torch.no_grad()
    def step(self) -> None:
        """Read a piece more."""
        asked, count = self.outcome, self.ids.shape[1]
        size = max(1, self.most // len(self.heads))
        after_the_last = isinstance(asked, Token) and asked.position in (-1, count - 1)
        if count <= size or not after_the_last or not _writes(self.model):
            self.found = knocked_out(self.model, self.ids, asked, self.heads)
            return
        ids = self.ids[:, self.read : self.read + size].expand(len(self.heads), -1)
        with editing(self.model.module, *({head: OFF} for head in self.heads)):
            scores, self.cache = scores_of(self.model, ids, self.cache)
        self.read += ids.shape[1]
        if self.read == count:
            self.found, self.cache = scores[:, -1].log_softmax(dim=-1)[:, asked.id], None


def batch_tokens(layers: int) -> int:
    """Return how many tokens one piece of work takes through a model of so many layers, at least 1."""
    return max(1, PASSES // layers)


def pieces(layers: int, heads: int, tokens: int, most: int | None = None) -> Iterator[list[tuple[int, int]]]:
    """Cut a model's heads into batches of at most about ``most`` tokens, so that nobody else waits long for one."""
    every = [(layer, head) for layer in range(layers) for head in range(heads)]
    size = max(1, (batch_tokens(layers) if most is None else most) // tokens)
    for start in range(0, len(every), size):
        yield every[start : start + size]


def gradient_times_weight(model: LoadedModel, ids: Int[Tensor, "1 T"], outcome: Outcome) -> Float[Tensor, "L H"]:
    """Return Σ weight · ∂outcome/∂weight of each head, by one pass forward and one back.

    It is how fast the outcome grows as the head's output is scaled up: the straight-line estimate of what switching the
    head off takes away. All weights of a layer are in memory at once: for short texts.
    """
    kept: list[Tensor] = []

    def dense(seen: Attended, output: Tensor) -> Tensor:
        trace = trace_attention(seen.query[0], seen.key[0], seen.value[0], seen.formula(0))
        if not trace.weights.requires_grad:
            raise TypeError(f"{model.title}'s weights have no gradient")
        kept.append(trace.weights)
        return trace.context.transpose(0, 1)[None].to(output.dtype)

    with torch.enable_grad(), changing(model.module, dense):
        said = outcome(model, ids)
        slopes = torch.autograd.grad(said.sum(), kept)
    return torch.stack([(w.detach() * slope).sum(dim=(1, 2)) for w, slope in zip(kept, slopes, strict=True)])


def rank_correlation(one: Float[ndarray, " N"], other: Float[ndarray, " N"]) -> float:
    """Return Spearman's rank correlation: 1 for the same order, −1 for the opposite, NaN where one is constant."""
    from scipy.stats import rankdata

    ranks = [rankdata(side) for side in (one, other)]
    if min(np.ptp(side) for side in ranks) == 0:
        return math.nan
    return float(np.corrcoef(ranks)[0, 1])
