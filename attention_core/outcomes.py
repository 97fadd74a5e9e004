"""What a model says in the end, as one number by which edits are judged: a log-probability, or a similarity."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_core.interface import without_cache
from attention_core.models.loading import LoadedModel


@dataclass(frozen=True)
class Token:
    """The log-probability of a token: as the next one of a model that writes, or in a masked place.

    Attributes:
        id: The token's number in the vocabulary.
        position: Where it is asked for; -1 is after the last token.
    """

    id: int
    position: int = -1

    def __call__(self, model: LoadedModel, ids: Int[Tensor, "B T"]) -> Float[Tensor, " B"]:
        """Return the log-probability, for each sequence."""
        return log_probabilities(model, ids, self.position)[:, self.id]


@dataclass(frozen=True)
class Similarity:
    """The cosine between a text's embedding and another one's.

    Attributes:
        vector: (D), of length 1: :func:`embedding` of the other text.
    """

    vector: Float[Tensor, " D"]

    def __call__(self, model: LoadedModel, ids: Int[Tensor, "B T"]) -> Float[Tensor, " B"]:
        """Return the cosine, for each sequence."""
        return embedding(model, ids) @ self.vector


Outcome = Callable[[LoadedModel, Int[Tensor, "B T"]], Float[Tensor, " B"]]


def predicts(model: LoadedModel) -> bool:
    """Return whether a model says tokens: it writes, or fills in. Others only make vectors."""
    return model.module.get_output_embeddings() is not None


def log_probabilities(model: LoadedModel, ids: Int[Tensor, "B T"], position: int = -1) -> Float[Tensor, "B V"]:
    """Return the log-probability of every token at a position: in nats, in float32 at least.

    Raises:
        TypeError: If the model has no head that predicts tokens.
    """
    if not predicts(model):
        raise TypeError(f"{model.title} makes vectors and predicts no tokens")
    logits = model.module(input_ids=ids, **without_cache(model.module)).logits[:, position]
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)


def embedding(model: LoadedModel, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B D"]:
    """Return a text's embedding: the mean of its tokens' last vectors, special tokens included, scaled to length 1.

    This is how sentence models such as MiniLM are trained to be read (Reimers & Gurevych 2019).
    """
    base = getattr(model.module, "base_model", model.module)
    states = base(input_ids=ids).last_hidden_state
    states = states.to(torch.promote_types(states.dtype, torch.float32))
    return torch.nn.functional.normalize(states.mean(dim=1), dim=-1)


def divergence(before: Float[Tensor, " V"], after: Float[Tensor, " V"]) -> float:
    """Return the Kullback–Leibler divergence of log-probabilities, in nats: what one loses by believing ``after``."""
    return float((before.exp() * (before - after)).sum())
