"""Many heads as one map: each way says something else, none says "what the model looked at"; every row sums to 1."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attention_core.captured import Capture
from attention_core.dot_product import trace_attention

FLOW_LIMIT = 32  # tokens: a flow is computed for each pair of them
UNITS = 2**24  # a capacity of 1, in the whole numbers that the flow algorithm takes

Square = Float[Tensor, "T T"]


def layer_mean(seen: Capture, layer: int) -> Float[Tensor, "Q K"]:
    """Return the mean weight over the heads of one layer."""
    return next(_layers(seen, [layer])).mean(dim=0)


def mean(seen: Capture) -> Float[Tensor, "Q K"]:
    """Return the mean weight over all heads of all layers; one layer at a time is in memory."""
    return sum(weights.mean(dim=0) for weights in _layers(seen)) / seen.layers


def largest(seen: Capture) -> Float[Tensor, "Q K"]:
    """Return the largest weight that any head gives, each row divided by its sum so that it is a share again."""
    most = torch.zeros(())
    for weights in _layers(seen):
        most = torch.maximum(most, weights.amax(dim=0))
    return most / most.sum(dim=-1, keepdim=True)


def rollout(seen: Capture) -> Square:
    """Follow the weights through all layers, half of each word staying where it is: Ã = (mean over heads + I) / 2.

    Returns:
        ÃL ⋯ Ã2 Ã1: which input position each output position is made of, if heads only passed on what they look at.

    Source: Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", equation 1.
    """
    mixed = None
    for step in _residual(seen):
        mixed = step if mixed is None else step @ mixed
    return mixed


def flow(seen: Capture, stopped: Callable[[], bool] = lambda: False) -> Square:
    """Return how much can flow from each output position to each input position if weights are the widths of pipes.

    The pipes are those of :func:`rollout`; the largest flow through all layers is divided by its row's sum.

    Args:
        seen: A text of at most ``FLOW_LIMIT`` tokens.
        stopped: Asked before each row; when it says so, the rest is left at zero.

    Raises:
        ValueError: If the text is longer.

    Source: Abnar & Zuidema 2020; maximum flow: Dinic 1970, from SciPy, with capacities rounded to 1/2²⁴.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    pipes = torch.stack(list(_residual(seen))).cpu()  # input side first
    layers, size, _ = pipes.shape
    if size > FLOW_LIMIT:
        raise ValueError(f"the flow is computed for at most {FLOW_LIMIT} tokens, not {size}")
    layer, query, key = (n.numpy() for n in torch.nonzero(pipes, as_tuple=True))
    widths = (pipes[layer, query, key].double() * UNITS).round().numpy().astype(np.int32)
    nodes = (layers + 1) * size  # position p after n layers is node n · size + p
    graph = coo_array((widths, ((layer + 1) * size + query, layer * size + key)), (nodes, nodes)).tocsr()
    found = torch.zeros(size, size)
    for output in range(size):
        if stopped():
            break
        for entry in range(size):
            found[output, entry] = maximum_flow(graph, layers * size + output, entry).flow_value
    return found / found.sum(dim=-1, keepdim=True).clamp_min(1)


def value_norms(seen: Capture, module: nn.Module, layer: int, head: int) -> Float[Tensor, "Q K"]:
    """Return how long the vector is that each key adds to each query's output: ‖weight · v W_O‖.

    A large weight on a short vector adds little. The rows are lengths, not shares: they do not sum to 1.

    Args:
        seen: The capture of ``module``.
        module: The transformers module, whose W_O is needed.
        layer: From 0.
        head: From 0.

    Raises:
        LookupError: If W_O can't be found beside the layer's attention.

    Source: Kobayashi et al. 2020, "Attention is Not Only a Weight", equation 5.
    """
    own = seen.layer(layer)
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
    here = module.get_submodule(name)
    beside = module.get_submodule(name.rpartition(".")[0])  # BERT keeps it in the sibling "output"
    for home, names_there in ((here, names), (getattr(beside, "output", None), names)):
        for found in (getattr(home, known, None) for known in names_there):
            weight = getattr(found, "weight", None)
            if weight is None or weight.ndim != 2:
                continue
            matrix = (
                weight.detach() if isinstance(found, nn.Linear) else weight.detach().mT
            )  # GPT-2's Conv1D: (in, out)
            if matrix.shape[1] == width:
                return matrix
    raise LookupError(f"no output projection of {width} inputs was found beside {name}")


def _layers(seen: Capture, which: list[int] | None = None) -> Iterator[Float[Tensor, "H Q K"]]:
    for layer in range(seen.layers) if which is None else which:
        own = seen.layer(layer)
        yield trace_attention(own.query, own.key, own.value, own.formula).weights


def _residual(seen: Capture) -> Iterator[Square]:
    for weights in _layers(seen):
        mixed = weights.mean(dim=0) + torch.eye(weights.shape[-1], device=weights.device)
        yield mixed / mixed.sum(dim=-1, keepdim=True)  # 2, except where a sink takes its share
