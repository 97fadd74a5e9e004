"""Rotary positions: a head's query and key before and after the model turns them, and the angle of every turn.

Nothing is undone and nothing is guessed: the model runs once more, and its own rotation is watched as it is called.
What went in is shown only if the turn that the model names, by its own cosine and sine, leads from there to what the
attention got. Source: Su et al. 2021, "RoFormer".
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor, nn

from attention_core.captured import Capture
from attention_core.interface import LayerAttention, recording, without_cache
from attention_core.models.loading import LoadedModel

EXACT = 1e-5  # of the largest number, in float32; a few roundings in 16-bit precision
STEADY = 1e-3  # radians
_watching = threading.Lock()


class NotTurned(LookupError):
    """There is no rotation to show: the layer has none, or it could not be verified.

    Attributes:
        turned: Whether the layer called a rotation at all.
    """

    def __init__(self, reason: str, *, turned: bool) -> None:
        """Keep the reason."""
        super().__init__(reason)
        self.turned = turned


class Parts(NamedTuple):
    """What each pair of features adds to a raw score, without and with the rotation; ``rest`` is never turned."""

    before: Float[ndarray, " P"]
    after: Float[ndarray, " P"]
    rest: float


@dataclass(frozen=True)
class Rotation:
    """One head before and after its rotation. Features are turned in pairs, each an arrow in a plane.

    At position m the arrow of pair p turns by ``angles[m, p]``, counter-clockwise. Lengths stay as they are (times
    ``scale``), so the score of two arrows changes only by the angle between them, which grows with the distance m − n.

    Attributes:
        query_before: (Q, D), before the rotation; what normalises the query has been done already.
        query_after: What the attention got.
        key_before: The same for the key-value head that the query head reads.
        key_after: What the attention got.
        pairs: The two features of each pair; features that stand in none are not turned.
        angles: In radians, from −π to π, from the model's own cosine and sine.
        scale: What the rotation multiplies lengths by; 1 except in some models that were stretched for long texts.
    """

    query_before: Float[ndarray, "Q D"]
    query_after: Float[ndarray, "Q D"]
    key_before: Float[ndarray, "K D"]
    key_after: Float[ndarray, "K D"]
    pairs: Int[ndarray, "P 2"]
    angles: Float[ndarray, "Q P"]
    scale: float = 1.0

    @property
    def speeds(self) -> Float[ndarray, " P"]:
        """θ of each pair: how far it turns from one position to the next, in radians."""
        return wrapped(self.angles[1] - self.angles[0]) if len(self.angles) > 1 else np.zeros(len(self.pairs))

    @property
    def steady(self) -> bool:
        """Whether position m is turned by m · θ, as in a text; patches of a picture have two directions."""
        even = np.arange(len(self.angles))[:, None] * self.speeds
        return bool(np.abs(wrapped(self.angles - even)).max() < STEADY)

    def parts(self, query: int, key: int) -> Parts:
        """Return what each pair adds to the raw score of a query and a key; all of it and the rest sum to the score."""
        before = self.query_before[query] * self.key_before[key]
        after = self.query_after[query] * self.key_after[key]
        still = np.setdiff1d(np.arange(len(after)), self.pairs)
        return Parts(before[self.pairs].sum(axis=1), after[self.pairs].sum(axis=1), float(after[still].sum()))


def wrapped(angles: Float[ndarray, "*S"]) -> Float[ndarray, "*S"]:
    """Return the same angles between −π and π."""
    return angles - 2 * np.pi * np.round(angles / (2 * np.pi))


def before_rotation(
    model: LoadedModel | nn.Module,
    seen: Capture,
    layer: int,
    head: int,
    kind: str | None = None,
    **inputs: object,
) -> Rotation:
    """Run a model once more and watch its rotation of one head.

    Args:
        model: What was captured.
        seen: Its capture.
        layer: From 0.
        head: From 0.
        kind: Which attention, in encoder-decoder models.
        **inputs: What the module was captured with, where that was no text.

    Raises:
        NotTurned: If the layer has no rotation, or one that can't be verified.
        WeightsOnly: If the model hands out weights only.
        IndexError: If there is no such layer or head.
    """
    query, _, _, _ = seen._head(layer, head, kind)
    module = model.module if isinstance(model, LoadedModel) else model
    if isinstance(model, LoadedModel) and seen.text:
        module = getattr(module, "base_model", module)
    if not inputs:
        inputs = {"input_ids": torch.tensor([[token.id for token in seen.tokens]], device=module.device)}
        if seen.target:
            inputs["decoder_input_ids"] = torch.tensor([[token.id for token in seen.target]], device=module.device)
    calls, own = _watch(module, inputs, layer, kind or seen.kinds[0])
    if not calls:
        raise NotTurned("this layer does not turn its queries and keys", turned=False)
    if own.query[head].shape != query[0].shape or not torch.allclose(own.query[head], query[0], rtol=1e-2, atol=1e-3):
        raise ValueError("these are not the inputs that were captured")
    group = seen.group(layer, head, kind)
    found = [_find(calls, given, at) for given, at in ((own.query, head), (own.key, group))]
    for (turned, pairs, angles, scale), (other, *same) in product(*found):
        if torch.equal(pairs, same[0]) and torch.equal(angles, same[1]):
            kept = (turned, own.query[head], other, own.key[group], pairs, angles)
            numbers = (t.float() if t.is_floating_point() else t for t in kept)
            return Rotation(*(t.numpy(force=True) for t in numbers), scale)
    raise NotTurned("the rotation of this layer can't be verified", turned=True)


def turns(module: nn.Module) -> bool:
    """Return whether a model has a rotation that could be watched."""
    return bool(_rotations(module))


class _Call(NamedTuple):
    """One call of the model's rotation: a tensor that went in and is to be turned, cosine and sine."""

    before: Tensor
    cos: Tensor
    sin: Tensor


def _watch(module: nn.Module, inputs: dict, layer: int, kind: str) -> tuple[list[_Call], LayerAttention]:
    calls: dict[int, list[_Call]] = {}  # by the number of the layer that comes next, all kinds counted
    with _watching, torch.no_grad(), recording(module) as record:

        def wanted(number: int) -> bool:
            layers = record.layers[: number + 1]
            return number >= len(record.layers) or (
                layers[number].kind == kind and sum(of.kind == kind for of in layers) == layer + 1
            )

        def keep(call: _Call) -> None:
            for number in [n for n in calls if not wanted(n)]:  # what others were given need not stay in memory
                del calls[number]
            calls.setdefault(len(record.layers), []).append(call)

        with _watched(module, keep):
            module(**inputs, **without_cache(module))
    number = [n for n, of in enumerate(record.layers) if of.kind == kind][layer]
    return calls.get(number, []), record.layers[number]


def _rotations(module: nn.Module) -> dict[str, list[str]]:
    """Name the rotations by the Python module in which they stand: transformers writes them beside each model."""
    found: dict[str, list[str]] = {}
    for home in {type(part).__module__ for part in module.modules()}:
        for name, function in vars(sys.modules[home]).items():
            named = name.startswith("apply_") and "rotary" in name and inspect.isfunction(function)
            if named and {"cos", "sin"} <= set(inspect.signature(function).parameters):
                found.setdefault(home, []).append(name)
    return found


@contextmanager
def _watched(module: nn.Module, keep: Callable[[_Call], None]) -> Iterator[None]:
    thread, originals = threading.get_ident(), []

    def watch(function: Callable) -> Callable:
        signature = inspect.signature(function)

        def watching(*args: object, **kwargs: object) -> object:
            result = function(*args, **kwargs)
            if threading.get_ident() == thread:
                named = signature.bind(*args, **kwargs).arguments
                outs = result if isinstance(result, tuple) else (result,)
                for before, _ in zip(named.values(), outs, strict=False):
                    keep(_Call(before, named["cos"], named["sin"]))
            return result

        return watching

    for home, names in _rotations(module).items():
        for name in names:
            function = getattr(sys.modules[home], name)
            originals.append((home, name, function))
            setattr(sys.modules[home], name, watch(function))
    try:
        yield
    finally:
        for home, name, function in originals:
            setattr(sys.modules[home], name, function)


def _find(
    calls: list[_Call], given: Float[Tensor, "H T D"], head: int
) -> list[tuple[Float[Tensor, "T D"], Int[Tensor, "P 2"], Float[Tensor, "T P"], float]]:
    """Return every verified way in which one head of what the attention got came about by a rotation."""
    found = []
    for call in calls:
        if call.before.ndim != 4 or call.before.shape[-1] > given.shape[-1]:
            continue
        for order in ((0, 1), (1, 0)):  # heads before positions, or after them
            before = call.before[0].permute(*order, 2).to(given.dtype)
            if before.shape[:2] == given.shape[:2]:
                whole = torch.cat([before, given[..., before.shape[-1] :]], dim=-1)  # the rest is not turned
                found += [(whole[head], *turn) for turn in _verified(whole, given, call.cos, call.sin)]
    return found


def _verified(
    before: Float[Tensor, "H T D"], after: Float[Tensor, "H T D"], cos: Tensor, sin: Tensor
) -> Iterator[tuple[Int[Tensor, "P 2"], Float[Tensor, "T P"], float]]:
    """Try the ways in which models pair their features, and yield those that lead from before to after."""
    size, positions = before.shape[-1], before.shape[1]
    cos, sin = (x.float().reshape(-1, x.shape[-1]) for x in (cos, sin))
    if len(cos) != positions:
        return
    width = cos.shape[-1]
    tolerance = max(EXACT, 4 * torch.finfo(after.dtype).eps)
    for count in (width // 2, width):  # cosine and sine come twice, for both features of a pair, or once
        if 2 * count > size or not count:
            continue
        numbers = torch.arange(count, device=before.device)
        layouts = (torch.stack([numbers, numbers + count], dim=1), torch.stack([2 * numbers, 2 * numbers + 1], dim=1))
        columns = (slice(count), slice(0, 2 * count, 2)) if count == width // 2 else (slice(count),)
        for pairs, column in product(layouts, columns):
            scale = (cos[:, column].square() + sin[:, column].square()).sqrt()
            angles = torch.atan2(sin[:, column], cos[:, column])
            turned = _turned(before.float(), pairs, angles, scale)
            if (turned - after.float()).abs().max() <= tolerance * after.float().abs().max():
                yield pairs, angles, round(scale.mean().item(), 5)
                return


def _turned(
    before: Float[Tensor, "H T D"],
    pairs: Int[Tensor, "P 2"],
    angles: Float[Tensor, "T P"],
    scale: Float[Tensor, "T P"],
) -> Float[Tensor, "H T D"]:
    x, y = before[..., pairs[:, 0]], before[..., pairs[:, 1]]
    after = before.clone()
    after[..., pairs[:, 0]] = scale * (x * angles.cos() - y * angles.sin())
    after[..., pairs[:, 1]] = scale * (y * angles.cos() + x * angles.sin())
    return after
