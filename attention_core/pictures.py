"""Pictures: what a model that sees made of one, with every patch named by its row and column.

The picture is given back as the model saw it: after its own resizing and cropping, with normalising undone.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from numpy import ndarray
from PIL import Image
from torch import Tensor, nn

from attention_core.aggregate import head_mean, rollout
from attention_core.captured import Capture, capture
from attention_core.errors import ModelHidden
from attention_core.models.seeing import SeeingModel
from attention_core.tokens import Token
from attention_core.windows import WindowedCapture

MOST_SQUARES = 512  # tokens of a head that is shown; a head with more is grouped into squares of patches
MOST_TOKENS = 1600  # tokens up to which all heads of a layer are computed at once
WAYS = ("head", "mean", "rollout")
THUMBNAIL = 32


@dataclass(frozen=True)
class SeenPicture:
    """What a model made of a picture.

    Attributes:
        seen: The capture, its tokens named; of a model that looks in windows, one that gives windows.
        rows: Of the grid of patches.
        columns: Of the grid of patches.
        patch: Height and width of a patch, in pixels of ``picture``.
        special: The tokens that are no patches, such as [CLS] and [REG1].
        picture: The picture as the model saw it, (height, width, 3).
        says: Its classes and their probabilities, the likeliest first; empty where it names none.
    """

    seen: Capture | WindowedCapture
    rows: int
    columns: int
    patch: tuple[int, int]
    special: tuple[str, ...]
    picture: UInt8[ndarray, "h w 3"]
    says: tuple[tuple[str, float], ...] = ()

    @property
    def windowed(self) -> bool:
        """Whether layers look in windows."""
        return isinstance(self.seen, WindowedCapture)

    def of(self, layer: int, window: int = 0) -> tuple[Capture, int]:
        """Return what has a layer's weights, and the layer's number in it: of a model with windows, one window."""
        return (self.seen.window(layer, window), 0) if self.windowed else (self.seen, layer)

    def grid(self, layer: int) -> tuple[int, int]:
        """Return rows and columns of a layer's grid: later layers of Swin have coarser ones."""
        if not self.windowed:
            return self.rows, self.columns
        cut = self.seen.windows(layer)
        return cut.rows, cut.columns

    def windows(self, layer: int) -> Int[ndarray, "rows columns"]:
        """Return the window of each patch of a layer's grid, from 0; one window where it looks at everything."""
        found = np.zeros(self.grid(layer), dtype=np.int64)
        for number in range(self.seen.windows(layer).count if self.windowed else 0):
            row, column = self.seen.windows(layer).places(number).T.numpy()
            found[row[row >= 0], column[row >= 0]] = number
        return found


@dataclass(frozen=True)
class PictureView:
    """Weights between the tokens of a picture as they are shown.

    Attributes:
        labels: The tokens, or squares of patches.
        places: Row and column of each in its grid, from 0; −1 for a special token.
        weights: Each row sums to 1.
        allowed: Who may look at whom.
        grid: Rows and columns of squares.
        square: How many patches a square is high and wide; 1 where nothing is grouped.
        only: Why there are weights and no scores; empty where there are scores.
    """

    labels: tuple[str, ...]
    places: Int[ndarray, "N 2"]
    weights: Float[ndarray, "N N"]
    allowed: ndarray
    grid: tuple[int, int]
    square: int
    only: str = ""


def see(model: SeeingModel, picture: Image.Image) -> SeenPicture:
    """Show a picture to a model, and keep what its attention layers were given.

    Raises:
        ModelHidden: If its attention can't be seen, or its tokens are no patches of the picture.
    """
    answers: list[Any] = []
    listening = model.module.register_forward_hook(lambda _, __, output: answers.append(output))
    try:
        pixels = model.processor(images=picture, return_tensors="pt")["pixel_values"]
        dtype, device = model.module.dtype, model.module.device
        seen = capture(model.module, pixel_values=pixels.to(device, dtype))
        return _named(seen, model, pixels, _says(answers[-1], model.module))
    except (TypeError, ValueError, RuntimeError, NotImplementedError, KeyError, AttributeError) as error:
        reason = str(error).partition("\n")[0]  # any model may be brought along
        raise ModelHidden(model.title, reason, "choose another model, or capture it from Python") from error
    finally:
        listening.remove()


def _named(
    seen: Capture, model: SeeingModel, pixels: Float[Tensor, "1 3 h w"], says: tuple[tuple[str, float], ...]
) -> SeenPicture:
    config = model.module.config
    size = getattr(config, "patch_size", None)
    if size is None or pixels.ndim != 4:
        raise ValueError("it does not cut one picture into patches of one size")
    patch = (int(size), int(size)) if isinstance(size, int) else (int(size[0]), int(size[1]))
    picture = _undone(pixels[0], model.processor)
    pretrained = {"pretrained": model.pretrained}
    if isinstance(seen, WindowedCapture):
        cut = seen.windows(0)
        seen = replace(seen, **pretrained)
        return SeenPicture(seen, cut.rows, cut.columns, patch, (), picture, says)
    rows, columns = pixels.shape[2] // patch[0], pixels.shape[3] // patch[1]
    before, after = _special(config, len(seen.tokens) - rows * columns)
    labels = [*before, *(f"{r + 1}·{c + 1}" for r in range(rows) for c in range(columns)), *after]
    first, last = len(before), len(before) + rows * columns
    tokens = tuple(
        Token(n, n - first if first <= n < last else -1, label, label, 0, 0, not first <= n < last, False, n)
        for n, label in enumerate(labels)
    )
    seen = replace(seen, tokens=tokens, **pretrained)
    return SeenPicture(seen, rows, columns, patch, (*before, *after), picture, says)


def _special(config: object, count: int) -> tuple[list[str], list[str]]:
    """Name the tokens before and after the patches."""
    if count < 0:
        raise ValueError("it has fewer tokens than patches: it pools or drops some of them")
    after = getattr(config, "num_detection_tokens", 0) if count else 0
    registers = getattr(config, "num_register_tokens", 0) or 0
    second = ["[DIST]"] if getattr(config, "model_type", "") == "deit" else []
    before = ["[CLS]", *second, *(f"[REG{n + 1}]" for n in range(registers))][: count - after]
    if len(before) + after != count:
        raise ValueError(f"it has {count} tokens that are no patches, of which only {len(before) + after} are known")
    return before, [f"[DET{n + 1}]" for n in range(after)]


def _undone(pixels: Float[Tensor, "3 h w"], processor: object) -> UInt8[ndarray, "h w 3"]:
    """Return pixels as a picture again: what the processor did to their numbers is undone, not what it cut off."""
    shown = pixels.float()
    if getattr(processor, "do_normalize", False):
        mean, spread = (torch.tensor(getattr(processor, name)).view(-1, 1, 1) for name in ("image_mean", "image_std"))
        shown = shown * spread + mean
    if getattr(processor, "do_rescale", True):
        shown = shown / (getattr(processor, "rescale_factor", None) or 1 / 255)
    shown = shown.round().clamp(0, 255).to(torch.uint8)
    return shown.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()


def _says(output: object, module: nn.Module) -> tuple[tuple[str, float], ...]:
    names = getattr(module.config, "id2label", None) or {}
    logits = getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] != len(names):
        return ()
    best = logits[0].float().softmax(dim=-1).topk(min(5, len(names)))
    return tuple((str(names[i]), p) for p, i in zip(best.values.tolist(), best.indices.tolist(), strict=True))


def view_picture(shown: SeenPicture, layer: int, head: int, way: str = "head", window: int = 0) -> PictureView:
    """Prepare weights between the tokens of a picture for showing.

    Args:
        shown: What was seen.
        layer: From 0.
        head: From 0.
        way: "head"; "mean", of the layer's heads; or "rollout", through all layers up to this one.
        window: Of a model with windows, which one, from 0.

    Raises:
        ValueError: If there is no such way, if windows or layers with several grids are to be followed through layers,
            or if there are too many tokens to compute all heads at once.
    """
    seen, at = shown.of(layer, window)
    if way not in WAYS:
        raise ValueError(f"the ways are {WAYS}, not {way!r}")
    if way != "head" and len(seen.tokens) > MOST_TOKENS:
        raise ValueError(f"all heads are computed for at most {MOST_TOKENS} tokens, not {len(seen.tokens)}")
    if way == "rollout":
        if shown.windowed:
            raise ValueError("a window's patches look at no others, so nothing can be followed through the layers")
        weights = rollout(torch.stack([head_mean(seen, n) for n in range(layer + 1)]))
    else:
        weights = head_mean(seen, at) if way == "mean" else seen.weights(at, head)
    allowed = seen.shares(at, heads=[head]).allowed[0] if shown.windowed else torch.ones_like(weights).bool()
    places = _places(seen.tokens, shown.grid(layer)[1])
    only = "" if seen.scores else seen.layer(at).reason
    square, groups = _squares(places)
    if square > 1:
        weights, allowed = _merged(weights, groups), _merged(allowed.float(), groups) > 0
        places = torch.stack([(places[groups == n][0]).div(square, rounding_mode="floor") for n in groups.unique()])
    labels = [
        token.label if square == 1 or token.special else f"{row + 1}·{column + 1}"
        for token, (row, column) in zip(_firsts(seen.tokens, groups), places.tolist(), strict=True)
    ]
    grid = tuple(-(-side // square) for side in shown.grid(layer))
    return PictureView(
        tuple(labels), _array(places), _array(weights.float()), _array(allowed), (grid[0], grid[1]), square, only
    )


def picture_csv(view: PictureView) -> str:
    """Return what is shown as a table, a line for each query and key; rows and columns count from 1, 0 for no patch."""
    out = io.StringIO()
    write = csv.writer(out)
    write.writerow(["query", "query_row", "query_column", "key", "key_row", "key_column", "weight"])
    tokens = [(label, *(place + 1).tolist()) for label, place in zip(view.labels, view.places, strict=True)]
    for query, row in zip(tokens, view.weights, strict=True):
        for key, weight in zip(tokens, row, strict=True):
            write.writerow([*query, *key, np.format_float_positional(weight, trim="-")])
    return out.getvalue()


def head_tiles(shown: SeenPicture, layer: int, window: int = 0) -> UInt8[ndarray, "H r c"]:
    """Return a small picture of each head of a layer: where [CLS] looks, or without one, the mean over all tokens.

    0 is no weight, 255 the largest weight that a patch of the picture gets. A window is drawn as the layer holds it: in
    one piece, also where its patches lie at opposite edges of the picture.
    """
    seen, at = shown.of(layer, window)
    places = _places(seen.tokens, shown.grid(layer)[1])
    inside = places[:, 0] >= 0
    if shown.windowed:
        width = shown.seen.windows(layer).width
        places = torch.stack([torch.arange(len(places)) // width, torch.arange(len(places)) % width], dim=1)
    square = int(-(-(places.amax() + 1) // THUMBNAIL))
    where = places[inside] // square
    rows, columns = (places.amax(dim=0) // square + 1).tolist()
    tiles = []
    for head in range(seen.layer(at).heads):
        tile = torch.zeros(rows, columns)
        tile.index_put_((where[:, 0], where[:, 1]), _looked_at(seen, at, head).float().cpu()[inside], accumulate=True)
        tiles.append((tile / tile.max().clamp_min(1e-12) * 255).round().to(torch.uint8))
    return _array(torch.stack(tiles))


def _looked_at(seen: Capture, layer: int, head: int) -> Float[Tensor, " N"]:
    if seen.tokens[0].special and seen.tokens[0].label == "[CLS]":
        return seen.row(layer, head, 0).weights[0] if seen.scores else seen.weights(layer, head)[0]
    return seen.weights(layer, head).mean(dim=0)


def _places(tokens: Sequence[Token], columns: int) -> Int[Tensor, "N 2"]:
    found = [divmod(token.id, columns) if token.id >= 0 else (-1, -1) for token in tokens]
    return torch.tensor(found)


def _squares(places: Int[Tensor, "N 2"]) -> tuple[int, Int[Tensor, " N"]]:
    """Return how large squares of patches must be so that not too many are shown, and the square of each token."""
    square = 1
    while True:
        marks = torch.where(places < 0, -1, places.clamp_min(0) // square)
        special = places[:, 0] < 0
        numbers = marks[:, 0] * (int(marks[:, 1].max()) + 1) + marks[:, 1]
        numbers = torch.where(special, -1 - torch.arange(len(places)).flip(0), numbers)
        groups = numbers.unique(return_inverse=True)[1]
        if square == 1:
            groups = torch.arange(len(places))
        if int(groups.max()) < MOST_SQUARES:
            return square, groups
        square += 1


def _merged(weights: Float[Tensor, "N N"], groups: Int[Tensor, " N"]) -> Float[Tensor, "G G"]:
    """Add up the weights of a group's keys, and take the mean of its queries: rows still sum to 1."""
    groups = groups.to(weights.device)
    count = int(groups.max()) + 1
    keys = weights.new_zeros(len(weights), count).index_add_(1, groups, weights)
    sums = weights.new_zeros(count, count).index_add_(0, groups, keys)
    return sums / groups.bincount(minlength=count)[:, None]


def _firsts(tokens: Sequence[Token], groups: Int[Tensor, " N"]) -> list[Token]:
    first = {group: token for token, group in reversed(list(zip(tokens, groups.tolist(), strict=True)))}
    return [first[group] for group in sorted(first)]


def _array(tensor: Tensor) -> ndarray:
    array = tensor.numpy(force=True)
    array.setflags(write=False)  # shared by everyone who looks at the same head
    return array
