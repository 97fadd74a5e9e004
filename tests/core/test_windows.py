"""Models that look in windows: weights as the library computes them, and every token at its true place."""

import pytest
import torch
from torch import nn

from attention_core import Formula, capture
from attention_core.errors import WeightsOnly
from attention_core.interface import LayerAttention
from attention_core.views import thumbnails, view_head
from attention_core.windows import Windows, has_windows
from benchmarks.families import WINDOWED, build, inputs, window_pairs, window_weights

named = pytest.mark.parametrize("family", WINDOWED, ids=lambda family: family.name)
SWIN, SAM = (next(family for family in WINDOWED if family.name == name) for name in ("Swin", "SAM, vision"))


@named
def test_weights_equal_the_librarys_own(family):
    module, given = build(family), inputs(family)
    with torch.no_grad():
        output = module(**given)[0]
    seen = capture(module, **given)
    with torch.no_grad():
        torch.testing.assert_close(module(**given)[0], output, atol=0, rtol=0)  # as if nobody had looked
    assert seen.scores == (family.shows == "scores")
    theirs = window_weights(family, given)
    assert len(theirs) == seen.layers == len(seen.cut)
    for own, right in window_pairs(seen, theirs):
        torch.testing.assert_close(own, right, atol=1e-5, rtol=0)
    first = seen.window(0, 0).weights(0, 0)
    assert first.amax(dim=-1).mean() > 1.5 / len(first)  # equal weights would prove nothing


@named
def test_every_token_is_where_its_label_says(family):
    """By identity: what the attention was given for a token is what the layer was given for that patch."""
    module, given = build(family), inputs(family)
    layers = [part for part in module.modules() if has_windows(part) and not any(map(has_windows, part.children()))]
    before, inside = [], []
    for part in layers:
        norm = next((getattr(part, name) for name in ("layer_norm1", "norm1") if hasattr(part, name)), nn.Identity())
        if family.name in ("Swin", "MaskFormer's Swin", "Donut's Swin"):
            norm = part.layernorm_before
        channels_first = family.name == "ViTDet"

        def keep(_, args, norm=norm, first=channels_first):
            before.append(
                norm(args[0].permute(0, 2, 3, 1) if first else args[0]).reshape(-1, norm_width(args[0], first))
            )

        def keep_inside(_, args, kwargs):
            hidden = args[0] if args else kwargs["hidden_states"]
            inside.append(hidden.reshape(len(hidden), -1, hidden.shape[-1]))

        part.register_forward_pre_hook(keep)
        attention = getattr(part, "attn", None) or part.attention
        attention.register_forward_pre_hook(keep_inside, with_kwargs=True)
    seen = capture(module, **given)
    assert len(seen.cut) == len(layers)
    for layer, (grid, windows) in enumerate(zip(before, inside, strict=True)):
        cut, patches = seen.windows(layer), []
        assert len(grid) == cut.rows * cut.columns
        assert len(windows) == cut.count
        for number in range(cut.count):
            tokens = seen.window(layer, number).tokens
            for token, given_to_attention in zip(tokens, windows[number], strict=True):
                right = torch.zeros_like(given_to_attention) if token.special else grid[token.id]
                torch.testing.assert_close(given_to_attention, right)
                row, column = divmod(token.id, cut.columns)
                assert token.label == ("[PAD]" if token.special else f"{row + 1}·{column + 1}")
            patches += [token.id for token in tokens if not token.special]
        assert sorted(patches) == list(range(cut.rows * cut.columns))  # the windows share the grid out


def norm_width(hidden, first):
    return hidden.shape[1] if first else hidden.shape[-1]


@pytest.mark.parametrize(
    ("windows", "number", "rows", "columns"),
    [
        (Windows(4, 6, 2, 3), 3, (2, 3), (3, 4, 5)),
        (Windows(4, 4, 2, 2, 1), 0, (1, 2), (1, 2)),
        (Windows(4, 4, 2, 2, 1), 3, (3, 0), (3, 0)),  # rolled round the edge
        (Windows(3, 3, 2, 2), 1, (0, 1), (2, -1)),
    ],
)
def test_places_by_hand(windows, number, rows, columns):
    expected = [(r, c) if c >= 0 else (-1, -1) for r in rows for c in columns]
    assert windows.places(number).tolist() == [list(place) for place in expected]


@pytest.mark.parametrize("windows", [Windows(6, 9, 3, 3, 1), Windows(7, 7, 3, 3, 1), Windows(8, 8, 4, 4, 2)])
def test_who_may_look_at_whom_after_a_shift(windows):
    """In a window, those may see one another that no edge of the picture lies between."""
    down, across = windows.down * windows.height, windows.across * windows.width
    for number in range(windows.count):
        row, column = divmod(number, windows.across)
        top, left = row * windows.height, column * windows.width
        cells = [(top + r, left + c) for r in range(windows.height) for c in range(windows.width)]
        beyond = [(r + windows.shift >= down, c + windows.shift >= across) for r, c in cells]
        right = torch.tensor([[one == other for other in beyond] for one in beyond])
        assert torch.equal(windows.allowed(number), right)


def test_the_masks_of_shifted_windows_are_there():
    seen = capture(build(SWIN), **inputs(SWIN))
    for layer in range(seen.layers):
        cut = seen.windows(layer)
        assert cut.shift == (1 if layer % 2 else 0)
        for number in range(cut.count):
            shares = seen.window(layer, number).shares(0)
            assert torch.equal(shares.allowed[0], cut.allowed(number))
            assert shares.weights[~shares.allowed].sum() == 0
            assert view_head(seen.window(layer, number), 0, 1).allowed.all() == cut.allowed(number).all()
    assert not seen.windows(1).allowed(8).all()
    given = capture(build(WINDOWED[1]), **inputs(WINDOWED[1])).window(1, 8)  # weights only: Swin v2
    assert torch.equal(given.shares(0).allowed[0], Windows(7, 7, 3, 3, 1).allowed(8))


@named
def test_the_formula_and_every_view_take_a_window(family):
    seen = capture(build(family), **inputs(family))
    window = seen.window(seen.layers - 1, 0)
    own, heads = window.layer(0), seen.cut[-1].heads
    assert thumbnails(window, 0).shape[0] == heads == window.heads
    torch.testing.assert_close(window.grouped(0, 1, "token"), window.weights(0, 1), atol=1e-6, rtol=0)
    assert window.links(0, 1, k=1)[0].weight == pytest.approx(window.weights(0, 1).max().item(), abs=1e-6)
    if family.shows == "weights":
        with pytest.raises(WeightsOnly, match="weights only"):
            window.trace(0, 1)
        return
    first = seen.window(0, 0)
    trace, free = first.trace(0, 1), first.trace(0, 1, Formula(without=("bias",)))
    assert trace.factor == pytest.approx(family.terms["factor"])
    assert isinstance(own, LayerAttention)
    assert [step.name for step in trace.steps] == ["bias"]
    assert not free.steps
    torch.testing.assert_close(free.weights, (trace.raw * trace.factor).softmax(dim=-1))
    torch.testing.assert_close(first.row(0, 1, 2).weights[0], trace.weights[2])
    torch.testing.assert_close(trace.context, trace.weights @ first.layer(0).value[1])


def test_a_window_must_be_chosen():
    seen = capture(build(SAM), **inputs(SAM))
    assert [seen.windows(layer).count for layer in range(2)] == [4, 1]
    assert len(seen.tokens) == 9
    for ask in (lambda: seen.weights(0, 0), lambda: seen.trace(0, 0), lambda: seen.shares(0), lambda: seen.links(0, 0)):
        with pytest.raises(TypeError, match=r"layer 0 looks in 4 windows.*seen\.window\(0, number\)"):
            ask()
    with pytest.raises(IndexError, match="window 4 does not exist: there are 4"):
        seen.window(0, 4)
    with pytest.raises(IndexError, match="layer 2 does not exist: there are 2"):
        seen.window(2, 0)
    assert seen.bytes > 0


@named
def test_several_pictures_are_refused(family):
    given = inputs(family)["pixel_values"]
    with pytest.raises(ValueError, match="one picture at a time"):
        capture(build(family), pixel_values=torch.cat([given, given]))


def test_a_model_of_several_parts_is_refused_with_the_reason():
    from transformers import SamConfig, SamModel

    sizes = {"hidden_size": 16, "num_attention_heads": 2, "mlp_dim": 20}
    config = SamConfig(
        vision_config=SAM.config | {"output_channels": 16, "num_pos_feats": 8},
        prompt_encoder_config={"hidden_size": 16, "image_size": 15, "patch_size": 5, "mask_input_channels": 4},
        mask_decoder_config=sizes | {"num_hidden_layers": 1, "iou_head_hidden_dim": 8},
    )
    module = SamModel(config).eval()
    points = torch.tensor([[[[3.0, 4.0]]]])
    with pytest.raises(TypeError, match="capture one of its parts"):
        capture(module, **inputs(SAM), input_points=points)
    assert capture(module.vision_encoder, **inputs(SAM)).layers == 2
