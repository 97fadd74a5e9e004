"""Many heads as one map: each way says something else, none says "what the model looked at"; every row sums to 1.

Layers are summed up first, one at a time (``head_mean``, ``head_largest``); the ways then work on L such maps.
"""

import numpy as np
import torch
from accelerate.utils import align_module_device
from jaxtyping import Float
from torch import Tensor, nn

from attention_core.captured import Capture

FLOW_LIMIT = 32  # tokens: a flow is computed for each pair of them
UNITS = 2**24  # a capacity of 1, in the whole numbers that the flow algorithm takes


def head_mean(seen: Capture, layer: int) -> Float[Tensor, "Q K"]:
    """Return the mean weight over the heads of a layer, from 0."""
    return _weights(seen, layer).mean(dim=0)


def head_largest(seen: Capture, layer: int) -> Float[Tensor, "Q K"]:
    """Return the largest weight of the heads of a layer, from 0; these rows sum to more than 1."""
    return _weights(seen, layer).amax(dim=0)


def mean(means: Float[Tensor, "L Q K"]) -> Float[Tensor, "Q K"]:
    """Return the mean weight over all heads of all layers, from each layer's ``head_mean``."""
    return means.mean(dim=0)


def largest(maxima: Float[Tensor, "L Q K"]) -> Float[Tensor, "Q K"]:
    """Return the largest weight of all heads, from each layer's ``head_largest``, each row divided by its sum."""
    most = maxima.amax(dim=0)
    return most / most.sum(dim=-1, keepdim=True)


def rollout(means: Float[Tensor, "L T T"]) -> Float[Tensor, "T T"]:
    """Follow the weights through all layers, half of each word staying where it is: Ã = (mean over heads + I) / 2.

    Args:
        means: Each layer's ``head_mean``, from input to output.

    Returns:
        ÃL ⋯ Ã2 Ã1: which input position each output position is made of, if heads only passed on what they look at.

    Source: Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", equation 1.
    """
    mixed = torch.eye(means.shape[-1], device=means.device)
    for step in _residual(means):
        mixed = step @ mixed
    return mixed


def flow(means: Float[Tensor, "L T T"], outputs: range | None = None) -> Float[Tensor, "O T"]:
    """Return how much can flow from output positions to each input position if weights are the widths of pipes.

    The pipes are those of :func:`rollout`; the largest flow through all layers is divided by its row's sum.

    Args:
        means: Each layer's ``head_mean``, of at most ``FLOW_LIMIT`` tokens.
        outputs: Which output positions; all by default.

    Raises:
        ValueError: If the text is longer.

    Source: Abnar & Zuidema 2020; maximum flow: Dinic 1970, from SciPy, with capacities rounded to 1/2²⁴.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    layers, size, _ = means.shape
    if size > FLOW_LIMIT:
        raise ValueError(f"the flow is computed for at most {FLOW_LIMIT} tokens, not {size}")
    pipes = _residual(means).cpu()
    layer, query, key = (n.numpy() for n in torch.nonzero(pipes, as_tuple=True))
    widths = (pipes[layer, query, key].double() * UNITS).round().numpy().astype(np.int32)
    nodes = (layers + 1) * size  # position p after n layers is node n · size + p
    graph = coo_array((widths, ((layer + 1) * size + query, layer * size + key)), (nodes, nodes)).tocsr()
    found = [
        [maximum_flow(graph, layers * size + output, entry).flow_value for entry in range(size)]
        for output in outputs or range(size)
    ]
    shares = torch.tensor(found, dtype=torch.float64)
    return (shares / shares.sum(dim=-1, keepdim=True)).float()


def value_norms(seen: Capture, module: nn.Module, layer: int, head: int) -> Float[Tensor, "Q K"]:
    """Return how long the vector is that each key adds to each query's output: ‖weight · v W_O‖.

    A large weight on a short vector adds little. The rows are lengths, not shares: they do not sum to 1.

    Args:
        seen: The capture of ``module``.
        module: The transformers module, whose W_O is needed.
        layer: From 0.
        head: From 0.

    Raises:
        LookupError: If W_O can't be found beside the layer's attention, or the model hands out weights only.

    Source: Kobayashi et al. 2020, "Attention is Not Only a Weight", equation 5.
    """
    own = seen.layer(layer)
    if not seen.scores:
        raise LookupError(f"weights only: {own.reason}")
    size = own.value.shape[-1]
    project = output_projection(module, own.name, len(own.query) * size)[:, head * size : (head + 1) * size]
    value = own.value[seen.group(layer, head)].to(project.dtype)
    return seen.weights(layer, head) * (value @ project.mT).float().norm(dim=-1)


def output_projection(module: nn.Module, name: str, width: int) -> Float[Tensor, "E HD"]:
    """Return W_O of an attention layer, as a matrix from all heads' values to the model's width.

    Args:
        module: The model.
        name: The path of the module that called the attention, as a capture names it.
        width: H · Dv, by which W_O is known.

    Raises:
        LookupError: If there is none.
    """
    names = ("o_proj", "out_proj", "c_proj", "out_lin", "out", "o", "dense", "proj", "wo", "Wo")
    parts = dict(module.named_modules())
    base = dict(getattr(module, "base_model", module).named_modules())  # load_model's text models are captured so
    here, beside = ((parts if at in parts else base)[at] for at in (name, name.rpartition(".")[0]))
    homes = (here, getattr(beside, "output", None))  # BERT keeps it in the sibling "output"
    for found in (getattr(home, known, None) for home in homes for known in names):
        weight = getattr(found, "weight", None)
        if weight is None or weight.ndim != 2:
            continue
        with align_module_device(found):  # of a model that is split it may lie on the disk
            weight = found.weight.detach()
        matrix = weight if isinstance(found, nn.Linear) else weight.mT  # GPT-2's is (in, out)
        if matrix.shape[1] == width:
            return matrix
    raise LookupError(f"no output projection of {width} inputs was found beside {name}")


def _weights(seen: Capture, layer: int) -> Float[Tensor, "H Q K"]:
    return seen.shares(layer).weights


def _residual(means: Float[Tensor, "L T T"]) -> Float[Tensor, "L T T"]:
    mixed = means + torch.eye(means.shape[-1], device=means.device)
    return mixed / mixed.sum(dim=-1, keepdim=True)  # by 2, except where a sink takes its share
