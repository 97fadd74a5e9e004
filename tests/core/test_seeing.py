"""Pictures: every patch at its true place, the picture as the model saw it, and odd files refused in words."""

import io
import json
import random
import re
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ViTImageProcessorPil

from assets.pictures.draw import SHIPPED, SIDE, scene
from assets.pictures.train import TESTED, accuracy, pictures
from attention_core.aggregate import rollout
from attention_core.captured import capture
from attention_core.errors import FolderBroken, ModelHidden, NoNetwork
from attention_core.models.seeing import TINY_FOLDER, SeeingModel, load_seeing
from attention_core.models.sees import KNOWN, TINY, sees, that_read, that_see
from attention_core.picture_files import MOST_PIXELS, PictureRefusedError, open_picture
from attention_core.pictures import (
    MOST_SQUARES,
    _merged,
    _squares,
    head_tiles,
    picture_csv,
    see,
    view_picture,
)
from benchmarks.families import FAMILIES, WINDOWED, build, eager_weights

SEE = [family for family in FAMILIES if family.reads == "image"]
named = pytest.mark.parametrize("family", SEE, ids=lambda family: family.name)
FINDS_RED = (0, 2)  # layer and head, from 0


@pytest.fixture(scope="module")
def tiny():
    return load_seeing(TINY, "cpu")


def file(name="shapes"):
    return (TINY_FOLDER.parent / f"{name}.png").read_bytes()


def as_file(picture, kind="PNG", **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def seeing(family, module=None):
    """Return a model of a family with a processor that leaves size and colours as they are."""
    processor = ViTImageProcessorPil(do_resize=False, do_normalize=False)
    return SeeingModel(family.name, family.name, module or build(family), processor, False)


def noise(width, height, seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


@named
def test_every_patch_is_where_its_label_says(family):
    """By identity: where pixels of one patch change, the key of that token changes in the first layer, and no other."""
    model, side = seeing(family), family.config["image_size"]
    wide = 2 * side - 5 if family.name.startswith(("DINOv2", "DINOv3")) else side  # these take any size
    plain = noise(wide, side)
    shown = see(model, plain)
    assert (shown.rows, shown.columns, shown.patch) == (side // 5, wide // 5, (5, 5))
    assert len(shown.seen.tokens) == shown.rows * shown.columns + len(shown.special)
    for row, column in ((0, 1), (shown.rows - 1, shown.columns - 1)):
        changed = plain.copy()
        changed.paste((255, 0, 255), (column * 5, row * 5, column * 5 + 5, row * 5 + 5))
        before, after = (see(model, picture).seen.layer(0).key for picture in (plain, changed))
        moved = (before - after).abs().amax(dim=(0, 2)) > 1e-5
        labels = [token.label for token, own in zip(shown.seen.tokens, moved.tolist(), strict=True) if own]
        assert labels == [f"{row + 1}·{column + 1}"]


@pytest.mark.parametrize(
    ("name", "special"),
    [
        ("ViT", ("[CLS]",)),
        ("DeiT", ("[CLS]", "[DIST]")),
        ("DINOv2 with registers", ("[CLS]", "[REG1]", "[REG2]")),
        ("DINOv3", ("[CLS]", "[REG1]", "[REG2]")),
        ("SigLIP, vision", ()),
        ("I-JEPA", ()),
    ],
)
def test_tokens_that_are_no_patches_have_their_names(name, special):
    family = next(family for family in SEE if family.name == name)
    shown = see(seeing(family), noise(15, 15))
    assert shown.special == special
    assert [token.label for token in shown.seen.tokens if token.special] == list(special)
    assert shown.seen.tokens[len(special)].label == "1·1"


def test_detection_tokens_stand_at_the_end():
    from transformers import YolosConfig, YolosModel

    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 31}
    config = YolosConfig(
        **sizes, image_size=[15, 20], patch_size=5, num_detection_tokens=3, num_mid_position_embeddings=0
    )
    model = seeing(SEE[0])
    shown = see(SeeingModel("yolos", "yolos", YolosModel(config).eval(), model.processor, False), noise(20, 15))
    labels = [token.label for token in shown.seen.tokens]
    assert (labels[:2], labels[12:]) == (["[CLS]", "1·1"], ["3·4", "[DET1]", "[DET2]", "[DET3]"])


def test_the_picture_comes_back_as_the_model_saw_it(tiny):
    picture = open_picture(file("cat"))
    shown = see(tiny, picture)
    resized = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC), dtype=int)
    assert shown.picture.shape == (64, 64, 3)
    assert np.abs(shown.picture - resized).max() <= 1


def test_weights_are_the_librarys(tiny):
    given = {"pixel_values": tiny.processor(images=open_picture(file()), return_tensors="pt")["pixel_values"]}
    before = tiny.module.config._attn_implementation
    shown = see(tiny, open_picture(file()))
    assert tiny.module.config._attn_implementation == before
    expected = torch.stack(eager_weights(load_seeing(TINY, "cpu").module, given)["self"])
    for layer in range(4):
        for head in range(4):
            view = view_picture(shown, layer, head)
            np.testing.assert_allclose(view.weights, expected[layer, head], atol=1e-5)
        mean = view_picture(shown, layer, 0, "mean")
        np.testing.assert_allclose(mean.weights, expected[layer].mean(0), atol=1e-5)
        rolled = view_picture(shown, layer, 0, "rollout")
        np.testing.assert_allclose(rolled.weights, rollout(expected[: layer + 1].mean(1)), atol=1e-5)
    assert view.labels[:3] == ("[CLS]", "1·1", "1·2")
    assert view.places[:3].tolist() == [[-1, -1], [0, 0], [0, 1]]


def test_the_tiny_model_is_as_good_as_it_is_said_to_be(tiny):
    told = json.loads((TINY_FOLDER / "accuracy.json").read_text())
    measured = accuracy(tiny.module, *pictures(told["seed"], TESTED))
    assert told["pictures"] == TESTED
    assert measured == pytest.approx(told["accuracy"], abs=0.003)
    assert told["accuracy"] > 0.98


def test_what_the_tiny_model_says_of_the_shipped_pictures(tiny):
    best = {name: see(tiny, open_picture(file(name))).says[0] for name in SHIPPED}
    assert best["shapes"][0] == "triangle"
    assert best["pair"][0] == "circle"
    assert min(best["shapes"][1], best["pair"][1]) > 0.98
    assert all(sum(p for _, p in see(tiny, open_picture(file(name))).says) == pytest.approx(1) for name in ("cat",))


def test_the_shipped_pictures_are_those_that_the_script_draws():
    for name, make in SHIPPED.items():
        drawn = make()
        small = drawn.resize((drawn.width // 2, drawn.height // 2), Image.Resampling.LANCZOS)
        assert np.abs(np.asarray(small, int) - np.asarray(open_picture(file(name)), int)).max() <= 2


def test_one_head_of_the_tiny_model_finds_what_is_red(tiny):
    """The head that the page opens with: no other gives the patches of the red shape so much of [CLS]'s weight."""
    draw, shares = random.Random(5), []
    for _ in range(25):
        picture, _, (x, y, radius) = scene(draw)
        shown = see(tiny, picture)
        middle = (np.indices((8, 8)).transpose(1, 2, 0) + 0.5) / 8
        inside = np.hypot(middle[..., 1] - x, middle[..., 0] - y).flatten() < radius + 0.09
        weights = np.stack([[view_picture(shown, n, h).weights[0, 1:] for h in range(4)] for n in range(4)])
        shares.append(weights[..., inside].sum(-1))
    mean = np.mean(shares, axis=0)
    assert np.unravel_index(mean.argmax(), mean.shape) == FINDS_RED
    assert mean[FINDS_RED] > 0.8


def test_tiles_are_where_cls_looks(tiny):
    shown = see(tiny, open_picture(file()))
    tiles = head_tiles(shown, 0)
    row = view_picture(shown, *FINDS_RED).weights[0, 1:].reshape(8, 8)
    assert tiles.shape == (4, 8, 8)
    np.testing.assert_allclose(tiles[FINDS_RED[1]], row / row.max() * 255, atol=0.51)
    without = see(seeing(next(family for family in SEE if family.name == "I-JEPA")), noise(15, 15))
    mean = view_picture(without, 0, 1).weights.mean(axis=0).reshape(3, 3)
    np.testing.assert_allclose(head_tiles(without, 0)[1], mean / mean.max() * 255, atol=0.51)


def test_many_patches_are_grouped_into_squares():
    places = torch.cat([torch.tensor([[-1, -1]]), torch.cartesian_prod(torch.arange(31), torch.arange(41))])
    square, groups = _squares(places)
    assert square == 2
    assert len(groups.unique()) == 1 + 16 * 21 <= MOST_SQUARES
    assert groups[0] == 0
    assert (groups == groups[1]).nonzero().flatten().tolist() == [1, 2, 1 + 41, 2 + 41]
    weights = torch.rand(len(places), len(places)).softmax(dim=-1)
    merged = _merged(weights, groups)
    torch.testing.assert_close(merged.sum(dim=-1), torch.ones(len(merged)))
    inside = groups == groups[1]
    expected = weights[inside][:, groups == groups[5]].sum(dim=1).mean()
    torch.testing.assert_close(merged[groups[1], groups[5]], expected)
    alone = torch.cartesian_prod(torch.arange(4), torch.arange(5))
    assert _squares(alone)[0] == 1
    assert _squares(alone)[1].tolist() == list(range(20))


def test_a_picture_of_many_patches_is_shown_in_squares():
    family = next(family for family in SEE if family.name == "DINOv2 with registers")
    shown = see(seeing(family), noise(125, 130))  # 26 rows of 25 patches, and three tokens more
    view = view_picture(shown, 1, 2)
    assert (view.square, view.grid) == (2, (13, 13))
    assert view.labels[:5] == ("[CLS]", "[REG1]", "[REG2]", "1·1", "1·2")
    whole = shown.seen.weights(1, 2)
    np.testing.assert_allclose(view.weights.sum(-1), 1, atol=1e-5)
    at = [3 + r * 25 + c for r in (2, 3) for c in (4, 5)]  # row 2, column 3 of the squares
    spot = view.labels.index("2·3")
    assert view.places[spot].tolist() == [1, 2]
    assert view.weights[0, spot] == pytest.approx(whole[0, at].sum().item(), rel=1e-4)
    assert view.weights[spot, 0] == pytest.approx(whole[at, 0].mean().item(), rel=1e-4)


def test_windows_of_a_picture():
    swin = WINDOWED[0]
    shown = see(seeing(swin), noise(28, 28))
    assert (shown.windowed, shown.rows, shown.grid(0), shown.grid(2)) == (True, 7, (7, 7), (4, 4))
    owners = shown.windows(1)
    for number in range(9):
        view = view_picture(shown, 1, 2, window=number)
        inside = view.places[:, 0] >= 0
        assert {tuple(place) for place in view.places[inside]} == set(zip(*np.nonzero(owners == number), strict=True))
        np.testing.assert_allclose(view.weights.sum(-1), 1, atol=1e-5)
        assert not view.weights[~view.allowed].any()
    np.testing.assert_allclose(
        view_picture(shown, 1, 0, "mean", 4).weights, shown.seen.window(1, 4).shares(0).weights.mean(0), atol=1e-6
    )
    assert head_tiles(shown, 1, 4).shape == (3, 3, 3)
    corner = view_picture(shown, 1, 2, window=8)  # rolled round the edge, and padded
    mean = np.where(corner.places[:, 0] >= 0, corner.weights.mean(axis=0), 0).reshape(3, 3)
    np.testing.assert_allclose(head_tiles(shown, 1, 8)[2], mean / mean.max() * 255, atol=0.51)
    with pytest.raises(ValueError, match="look at no others"):
        view_picture(shown, 1, 0, "rollout")


def test_the_table_has_every_pair(tiny):
    view = view_picture(see(tiny, open_picture(file())), 0, 2)
    lines = picture_csv(view).splitlines()
    assert len(lines) == 1 + 65 * 65
    assert lines[0] == "query,query_row,query_column,key,key_row,key_column,weight"
    at = 1 + view.labels.index("3·6")
    assert lines[at].startswith("[CLS],0,0,3·6,3,6,0.9")


def bomb():
    """A PNG of a few hundred bytes that says that it is 30,000 × 30,000."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\0" * (5 * 2**20 + 1), "large"),
        (b"hello, I am a text", "kind"),
        (as_file(Image.new("RGB", (9, 9)), "GIF"), "kind"),
        (as_file(Image.new("RGB", (9, 9)), "BMP"), "kind"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "kind"),
        (file()[: len(file()) // 2], "damaged"),
        (as_file(noise(64, 64), "JPEG")[:700], "damaged"),
        (bomb(), "bomb"),
        (as_file(Image.new("1", (6000, 5000))), "pixels"),
        (as_file(Image.new("RGB", (2100, 100))), "thin"),
    ],
    ids=["empty", "large", "text", "gif", "bmp", "svg", "half a PNG", "part of a JPEG", "bomb", "pixels", "thin"],
)
def test_odd_files_are_refused_with_the_reason(data, reason):
    with pytest.raises(PictureRefusedError) as refused:
        open_picture(data)
    assert refused.value.reason == reason
    assert MOST_PIXELS < 6000 * 5000


def test_all_kinds_of_pictures_become_plain_colours():
    for picture, colour in (
        (Image.new("L", (8, 8), 77), (77, 77, 77)),
        (Image.new("RGBA", (8, 8), (255, 0, 0, 0)), (255, 255, 255)),
        (Image.new("RGBA", (8, 8), (255, 0, 0, 255)), (255, 0, 0)),
        (Image.new("P", (8, 8), 0), (0, 0, 0)),
        (Image.fromarray(np.full((8, 8), 257 * 60, np.uint16)), (60, 60, 60)),
    ):
        opened = open_picture(as_file(picture))
        assert (opened.mode, opened.getpixel((3, 3))) == ("RGB", colour)
    for kind in ("JPEG", "WEBP"):
        assert open_picture(as_file(Image.new("RGB", (8, 8), "white"), kind)).getpixel((2, 2)) == (255, 255, 255)
    turned = Image.new("RGB", (8, 16))
    exif = turned.getexif()
    exif[0x0112] = 6  # the camera was held upright
    assert open_picture(as_file(turned, "JPEG", exif=exif)).size == (16, 8)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A folder of models' folders, of which some see."""
    kinds = {
        "my-vit": "vit",
        "my-clip": "clip",
        "my-swin": "swin",
        "my-bert": "bert",
        "my-sam": "sam",
        "odd": "nonsense",
    }
    for name, kind in kinds.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"model_type": kind}))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "config.json").write_text("[]")
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))
    return tmp_path


def test_which_models_see_is_told_by_their_configuration(folders):
    see_them, read_them = that_see(), that_read()
    assert list(see_them) == [TINY, "my-clip", "my-sam", "my-swin", "my-vit"]
    assert list(read_them) == ["minilm", "smollm2", "broken", "list", "my-bert", "odd"]
    assert all(sees(name) for name in KNOWN)
    assert not sees("nobody/knows-this")
    assert not sees("../my-vit")


def test_a_hub_model_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("attention_core.models.hub._online", lambda: False)
    with pytest.raises(NoNetwork, match="nobody/knows-this"):
        load_seeing("nobody/knows-this")


def test_a_model_whose_files_are_not_all_there(folders):
    with pytest.raises(FolderBroken, match="preprocessor_config") as broken:
        load_seeing("my-vit")
    assert str(folders) not in broken.value.reason


def prepared(folder, family, told):
    """Save a model with a processor's configuration, load it, and show it a picture that is wider than high."""
    build(next(one for one in SEE if one.name == family)).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(told))
    model = load_seeing(str(folder), "cpu")
    return model, see(model, open_picture(file("cat")))


def test_what_a_model_cuts_off_is_not_shown(tmp_path):
    told = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 15}, "crop_size": 15}
    model, shown = prepared(tmp_path, "CLIP, vision", told)
    whole = open_picture(file("cat")).resize((20, 15), Image.Resampling.BICUBIC)
    assert model.own_processor
    assert shown.picture.shape == (15, 15, 3)
    assert np.abs(shown.picture - np.asarray(whole, int)[:, 2:17]).mean() < 2


def test_pil_stands_in_where_only_torchvision_would_do(tmp_path):
    told = {"image_processor_type": "DINOv3ViTImageProcessor", "size": {"height": 15, "width": 15}}
    told |= {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], "resample": 2}
    model, shown = prepared(tmp_path, "DINOv3", told)
    assert not model.own_processor
    assert tuple(model.processor.image_mean) == (0.4, 0.5, 0.6)
    small = open_picture(file("cat")).resize((15, 15), Image.Resampling.BILINEAR)
    assert np.abs(shown.picture - np.asarray(small, int)).max() <= 1
    assert load_seeing(TINY, "cpu").own_processor


@pytest.mark.parametrize(
    ("family", "why"),
    [("ResNet", "no weights"), ("Segformer", "patches of one size|different things")],
)
def test_models_without_a_grid_of_patches_are_refused_with_the_reason(family, why):
    import transformers

    module = getattr(transformers, f"{family}Model")(getattr(transformers, f"{family}Config")()).eval()
    with pytest.raises(ModelHidden) as hidden:
        see(seeing(SEE[0], module), noise(64, 64))
    assert re.search(why, hidden.value.reason)


def test_capture_alone_names_no_patches():
    """The core's own capture, without what prepares pictures, counts positions as before."""
    seen = capture(build(SEE[0]), pixel_values=torch.zeros(1, 3, 15, 15))
    assert [token.label for token in seen.tokens[:2]] == ["0", "1"]
    assert not seen.tokens[0].special
