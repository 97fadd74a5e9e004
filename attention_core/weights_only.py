"""Models whose attention does not go through transformers' interface: what they say of their weights themselves.

Their queries, keys and formula can't be seen, so there are weights and no scores. What a model hands out under the name
of attention is taken only if it is a matrix of queries × keys whose rows sum to 1; otherwise the model is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

OWN_WAY = "it computes attention in a way of its own, not through transformers' attention interface"

# These hand out numbers that can look like such a matrix for a text of the right length, and are none.
REFUSED = {
    "longformer": "it looks through a window that moves, and hands out the window's weights, not those of every key",
    "led": "its encoder looks through a window that moves, and hands out the window's weights, not those of every key",
    "reformer": "it looks at chunks and hashed buckets, and hands out their weights, not those of every key",
    "funnel": "it pools positions between its layers, so that queries and keys are no tokens",
    "canine": "it looks at pieces of the text and at pooled characters, so that queries and keys are no tokens",
    "nystromformer": "it approximates attention by landmarks and has no weights between tokens",
    "yoso": "it approximates attention by hashing and has no weights between tokens",
    "prophetnet": "its decoder looks in several streams at once, which one matrix can't show",
}
KINDS = {
    "attentions": "self",
    "encoder_attentions": "encoder",
    "decoder_attentions": "decoder",
    "cross_attentions": "cross",
}
ROUNDING = 0.01  # of a row's sum, in 16-bit precision


@dataclass(frozen=True)
class LayerWeights:
    """What one attention layer handed out: weights only.

    Attributes:
        weights: (H, Q, K); each row sums to 1, or is all zero.
        kind: "self"; in encoder-decoder models "encoder", "decoder" or "cross".
        model: The model's class.
        reason: Why there are no scores.
        name: The module's path in the model: not known.
    """

    weights: Float[Tensor, "H Q K"]
    kind: str
    model: str
    reason: str = OWN_WAY
    name: str = ""

    @property
    def heads(self) -> int:
        """How many query heads there are."""
        return len(self.weights)


def given_weights(module: nn.Module, inputs: Mapping[str, object]) -> list[LayerWeights]:
    """Run a model once and take the weights that it hands out.

    Args:
        module: The model.
        inputs: What it reads, a batch of one.

    Raises:
        TypeError: If what it hands out is no matrix of queries × keys, saying why.
    """
    model = type(module).__name__
    if reason := REFUSED.get(module.config.model_type):
        raise TypeError(f"{model} has no matrix that could be shown: {reason}")
    if hasattr(module, "attention_type"):  # BigBird exchanges its layers at its first short text, and hands out nothing
        _run(module, inputs)
    if getattr(module, "attention_type", None) == "block_sparse":
        raise TypeError(f"{model} looks at blocks of so long a text, some of them drawn at random: give a shorter one")
    output = _run(module, inputs, output_attentions=True)
    found = [
        LayerWeights(_checked(weights, model), kind, model)
        for name, kind in KINDS.items()
        for weights in output.get(name) or ()
    ]
    if not found:
        raise TypeError(f"none of {model}'s layers has attention that can be seen, and it hands out no weights")
    return found


def _run(module: nn.Module, inputs: Mapping[str, object], **asked: bool) -> Mapping[str, object]:
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            return module(**inputs, **asked, return_dict=True)
    finally:
        module.train(training)


def _checked(weights: object, model: str) -> Float[Tensor, "H Q K"]:
    if not isinstance(weights, Tensor) or weights.ndim != 4 or len(weights) != 1:
        shape = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise TypeError(f"{model} hands out no matrix of queries × keys for each head, but {shape}")
    precise = weights[0].to(torch.promote_types(weights.dtype, torch.float32))
    sums = precise.sum(dim=-1)
    if not (((sums - 1).abs() < ROUNDING) | (sums == 0)).all():
        raise TypeError(f"the rows of what {model} hands out as weights do not sum to 1")
    return precise
