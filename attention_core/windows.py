"""Models that cut a picture into windows and look inside each of them alone: Swin, SAM and their kin.

Such a layer computes all its windows at once, as a batch. Here each window is a capture of its own, whose tokens are
the patches that really lie in it: Swin's cyclic shift is undone, and what the shift's mask forbids is forbidden here.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_core.captured import Capture
from attention_core.formula import Formula
from attention_core.interface import LayerAttention, recording
from attention_core.tokens import Token
from attention_core.weights_only import OWN_WAY, LayerWeights

FORBIDDEN = -50.0  # Swin forbids by adding −100 to a score, not −∞
SIGNS = ("shift_size", "window_partition", "use_residual_block")  # of Swin's, SAM's and ViTDet's layers


@dataclass(frozen=True)
class Windows:
    """How one layer cuts its grid of patches into windows.

    Attributes:
        rows: Of the grid. In Swin, a patch of a later stage is four of the stage before.
        columns: Of the grid.
        height: Of a window, in patches.
        width: Of a window, in patches.
        shift: By how many patches the grid is rolled up and to the left before it is cut.
    """

    rows: int
    columns: int
    height: int
    width: int
    shift: int = 0

    @property
    def down(self) -> int:
        """How many windows lie below one another; the grid is padded for the last one."""
        return -(-self.rows // self.height)

    @property
    def across(self) -> int:
        """How many windows lie beside one another."""
        return -(-self.columns // self.width)

    @property
    def count(self) -> int:
        """How many windows there are."""
        return self.down * self.across

    def places(self, number: int) -> Int[Tensor, "N 2"]:
        """Return row and column, from 0, of every token of a window; −1 and −1 for one that only fills the window up.

        Raises:
            IndexError: If there is no such window, naming how many there are.
        """
        row, column = self._cut(number)
        row = (row + self.shift) % (self.down * self.height)
        column = (column + self.shift) % (self.across * self.width)
        places = torch.stack(torch.meshgrid(row, column, indexing="ij"), dim=-1).reshape(-1, 2)
        outside = (places[:, 0] >= self.rows) | (places[:, 1] >= self.columns)
        return places.masked_fill(outside[:, None], -1)

    def allowed(self, number: int) -> Bool[Tensor, "N N"]:
        """Return who may look at whom: after a shift, only patches that were neighbours before it."""
        sides = []
        for at, whole, size in zip(self._cut(number), self._padded, (self.height, self.width), strict=True):
            last, wrapped = at >= whole - size, at >= whole - self.shift
            sides.append(last.long() + wrapped.long() if self.shift else torch.zeros_like(at))
        area = (sides[0][:, None] * 3 + sides[1]).flatten()
        return area[:, None] == area

    def tokens(self, number: int) -> tuple[Token, ...]:
        """Return a window's tokens: ``id`` counts the grid's patches, row by row; the label is row·column, from 1."""
        places = self.places(number).tolist()
        return tuple(_patch(n, row, column, self.columns) for n, (row, column) in enumerate(places))

    @property
    def _padded(self) -> tuple[int, int]:
        return self.down * self.height, self.across * self.width

    def _cut(self, number: int) -> tuple[Int[Tensor, " h"], Int[Tensor, " w"]]:
        """Return the rows and the columns of a window in the rolled and padded grid."""
        if not 0 <= number < self.count:
            raise IndexError(f"window {number} does not exist: there are {self.count}, counted from 0")
        row, column = divmod(number, self.across)
        return torch.arange(self.height) + row * self.height, torch.arange(self.width) + column * self.width


@dataclass(frozen=True)
class WindowLayer:
    """A layer that looks in windows: what each window was given, or the weights that it handed out.

    Attributes:
        windows: How the layer cuts its grid.
        at: For each window, its attention.
        name: The layer's path in the model.
    """

    windows: Windows
    at: tuple[LayerAttention, ...] | tuple[LayerWeights, ...]
    name: str

    @property
    def heads(self) -> int:
        """How many query heads there are."""
        return self.at[0].heads


@dataclass(frozen=True)
class WindowedCapture(Capture):
    """The capture of a model that looks in windows; :meth:`window` gives one of them, with every view of a capture.

    Its ``tokens`` are the patches of the first layer's grid. Layers have grids and numbers of heads of their own.

    Attributes:
        cut: What each layer's windows were given.
    """

    cut: tuple[WindowLayer, ...] = ()

    def windows(self, layer: int) -> Windows:
        """Return how a layer, from 0, cuts its grid: how many windows, and where each one's patches lie.

        Raises:
            IndexError: If there is no such layer.
        """
        return self._cut(layer).windows

    def window(self, layer: int, number: int) -> Capture:
        """Return one window of one layer as a capture, whose only layer, 0, is that layer.

        Args:
            layer: From 0.
            number: Of the window, from 0, row by row.

        Raises:
            IndexError: If there is no such layer or window.
        """
        own = self._cut(layer)
        tokens = own.windows.tokens(number)
        return Capture(self.text, tokens, (), {"self": (own.at[number],)}, self.pretrained)

    @property
    def bytes(self) -> int:
        """How much memory the kept tensors take."""
        return Capture("", (), (), {"self": tuple(one for layer in self.cut for one in layer.at)}, False).bytes

    def layer(self, layer: int, kind: str | None = None) -> LayerAttention:
        """Refuse: a window must be chosen first."""
        raise TypeError(
            f"layer {layer} looks in {self.windows(layer).count} windows, each alone: take one of them, "
            f"seen.window({layer}, number)"
        )

    def _cut(self, layer: int) -> WindowLayer:
        if not 0 <= layer < len(self.cut):
            raise IndexError(f"layer {layer} does not exist: there are {len(self.cut)}, counted from 0")
        return self.cut[layer]


@dataclass(frozen=True)
class Decomposed(Formula):
    """SAM's formula: a bias of a part for the rows and a part for the columns, which depends on the query.

    Written out, it is as large as all weights, 800 MB for one layer of SAM: so only for heads that are looked at.

    Attributes:
        rows: What a query adds for each row of keys.
        columns: What a query adds for each column of keys.
    """

    rows: Float[Tensor, "H Q h"] | None = None
    columns: Float[Tensor, "H Q w"] | None = None

    def heads(self, heads: Sequence[int]) -> Formula:
        """Return the formula of some heads, the bias written out."""
        picked = list(heads)
        bias = (self.rows[picked][..., :, None] + self.columns[picked][..., None, :]).flatten(-2)
        plain = {one.name: getattr(self, one.name) for one in fields(Formula)}
        return replace(Formula(**plain), bias=bias)


def has_windows(module: nn.Module) -> bool:
    """Return whether a model has layers that cut their input into windows in a way that is known here."""
    return any(_cuts(part) for part in module.modules())


def capture_windows(module: nn.Module, inputs: Mapping[str, object], *, pretrained: bool) -> WindowedCapture:
    """Run a model that looks in windows once, and keep what each window was given, or handed out.

    Args:
        module: The model.
        inputs: What it reads, a batch of one picture.
        pretrained: Whether it was ever trained.

    Raises:
        TypeError: If some of its layers look in another way, or hand out nothing that could be shown.
        ValueError: If there is more than one picture.
    """
    own_way = not module._can_set_attn_implementation()
    training = module.training
    module.eval()
    try:
        with (
            torch.no_grad(),
            _watching(module, own_way=own_way) as watch,
            nullcontext() if own_way else recording(module, watch.take),
        ):
            module(**inputs)
    finally:
        module.train(training)
    first = watch.layers[0].windows
    tokens = tuple(_patch(n, *divmod(n, first.columns), first.columns) for n in range(first.rows * first.columns))
    firsts = tuple(layer.at[0] for layer in watch.layers)
    return WindowedCapture("", tokens, (), {"self": firsts}, pretrained, cut=tuple(watch.layers))


@dataclass
class _Watch:
    """What is seen of the layers while the model runs."""

    layers: list[WindowLayer] = field(default_factory=list)
    inside: bool = False
    given: tuple[Tensor, Tensor, Tensor, list[Formula]] | None = None
    handed_out: Tensor | None = None

    def take(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, kwargs: Mapping[str, object]
    ) -> None:
        """Keep what goes through the attention interface."""
        if not self.inside:
            raise TypeError(
                "this model looks in windows in some layers and in another way in others: capture one of its parts, "
                "with that part's own inputs"
            )
        plain = Formula(factor=kwargs.get("scaling"))
        self.given = query, key, value, _formulas(plain, mask, len(query))


@contextmanager
def _watching(module: nn.Module, *, own_way: bool) -> Iterator[_Watch]:
    watch, handles = _Watch(), []

    def enter(part: nn.Module, args: tuple) -> None:
        watch.inside, watch.given, watch.handed_out = True, None, None

    def ask(part: nn.Module, args: tuple, kwargs: Mapping[str, object]) -> tuple[tuple, dict[str, object]]:
        return args, {**kwargs, "output_attentions": True}  # the whole model, asked so, may hand out some layers only

    def answer(part: nn.Module, args: tuple, output: object) -> None:
        watch.handed_out = output[1] if isinstance(output, tuple) and len(output) > 1 else None

    def qkv(part: nn.Module, args: tuple, kwargs: Mapping[str, Tensor]) -> None:
        watch.given = _decomposed(part, args[0] if args else kwargs["hidden_states"])

    def leave(part: nn.Module, args: tuple, kwargs: Mapping[str, object], output: object) -> None:
        windows = _read_windows(part, args, kwargs)
        watch.layers.append(WindowLayer(windows, _attention(watch, module, names[part], windows), names[part]))
        watch.inside = False

    names = {part: name for name, part in module.named_modules()}
    for part in module.modules():
        if _cuts(part):
            handles += [
                part.register_forward_pre_hook(enter),
                part.register_forward_hook(leave, with_kwargs=True),
            ]
            if own_way and isinstance(attention := getattr(part, "attention", None), nn.Module):
                handles.append(attention.register_forward_pre_hook(ask, with_kwargs=True))
                handles.append(attention.register_forward_hook(answer))
        if hasattr(part, "get_decomposed_rel_pos"):
            handles.append(part.register_forward_pre_hook(qkv, with_kwargs=True))
    try:
        yield watch
    finally:
        for handle in handles:
            handle.remove()


def _cuts(part: nn.Module) -> bool:
    return hasattr(part, "window_size") and any(hasattr(part, sign) for sign in SIGNS)


def _read_windows(part: nn.Module, args: tuple, kwargs: Mapping[str, object]) -> Windows:
    if hasattr(part, "shift_size"):  # both may have been made smaller for a small grid, by the layer itself
        rows, columns = (int(side) for side in (args[1] if len(args) > 1 else kwargs["input_dimensions"]))
        return Windows(rows, columns, int(part.window_size), int(part.window_size), int(part.shift_size))
    shape = (args[0] if args else kwargs["hidden_states"]).shape
    rows, columns = shape[1:3] if hasattr(part, "window_partition") else shape[2:4]
    size = part.window_size  # 0: the layer looks at the whole grid
    return Windows(rows, columns, size or rows, size or columns)


def _attention(
    watch: _Watch, module: nn.Module, name: str, windows: Windows
) -> tuple[LayerAttention, ...] | tuple[LayerWeights, ...]:
    given = watch.given[0] if watch.given else watch.handed_out
    if not isinstance(given, Tensor) or given.ndim != 4:
        raise TypeError(f"{type(module).__name__} looks in windows, in a way of its own, and hands out no weights")
    if len(given) != windows.count:
        raise ValueError(
            f"one picture at a time: {name} has {windows.count} windows in each, and was given {len(given)}"
        )
    if watch.given:
        found = zip(*watch.given, strict=True)
        return tuple(LayerAttention(q, k, v, formula, "self", name) for q, k, v, formula in found)
    weights = given.to(torch.promote_types(given.dtype, torch.float32))
    if not torch.allclose(weights.sum(dim=-1), torch.ones(()).to(weights), atol=0.01):
        raise TypeError(f"the rows of what {type(module).__name__} hands out as weights do not sum to 1")
    # What Swin forbids gets some 10⁻⁴⁴: nothing, and it must not pass for something that is allowed.
    forbidden = [~windows.allowed(n).to(weights.device) for n in range(windows.count)]
    found = zip(weights, forbidden, strict=True)
    return tuple(LayerWeights(w.masked_fill(no, 0.0), "self", type(module).__name__, OWN_WAY, name) for w, no in found)


def _formulas(plain: Formula, mask: Float[Tensor, "... N N"] | None, count: int) -> list[Formula]:
    """Take a mask apart: a bias that all windows share, and what is forbidden in each of them."""
    if mask is None:
        return [plain] * count
    bias = mask.amax(dim=0)  # the first window is never at the edge, so each pair is allowed somewhere
    plain = replace(plain, bias=bias if bias.any() else None)
    allowed = (mask - bias > FORBIDDEN).any(dim=1, keepdim=True)
    if len(allowed) == 1:
        return [plain] * count
    return [replace(plain, allowed=None if one.all() else one) for one in allowed]


def _decomposed(part: nn.Module, hidden: Float[Tensor, "W h w C"]) -> tuple[Tensor, Tensor, Tensor, list[Formula]]:
    """Compute what SAM's attention computes before its dot product, with its own parts."""
    count, height, width, _ = hidden.shape
    split = part.qkv(hidden).reshape(count, height * width, 3, part.num_attention_heads, -1)
    query, key, value = split.permute(2, 0, 3, 1, 4)
    if not part.use_rel_pos:
        return query, key, value, [Formula(factor=part.scale)] * count
    places = query.unflatten(2, (height, width))
    rows, columns = (part.get_rel_pos(n, n, by) for n, by in ((height, part.rel_pos_h), (width, part.rel_pos_w)))
    rows = torch.einsum("bnhwd,hkd->bnhwk", places, rows).flatten(2, 3)
    columns = torch.einsum("bnhwd,wkd->bnhwk", places, columns).flatten(2, 3)
    return (
        query,
        key,
        value,
        [Decomposed(factor=part.scale, rows=r, columns=c) for r, c in zip(rows, columns, strict=True)],
    )


def _patch(index: int, row: int, column: int, columns: int) -> Token:
    inside = row >= 0
    label = f"{row + 1}·{column + 1}" if inside else "[PAD]"
    return Token(index, row * columns + column if inside else -1, label, label, 0, 0, not inside, not inside, index)
