"""The page "Picture", as a reader drives it."""

import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from pages.test_pages import arrays, captions, link, payload
from trigger import fire

PAGE = "pages/picture.py"
TEXT_PAGES = (
    "pages/sentence.py",
    "pages/all_heads.py",
    "pages/compare.py",
    "pages/find_head.py",
    "pages/many_heads.py",
)


def said(page):
    """Return all that is written, as it reads."""
    return " ".join(m.value for m in [*page.markdown, *page.caption, *page.warning, *page.error]).replace("\\", "")


@pytest.fixture
def own_models(tmp_path, monkeypatch):
    """A folder of tiny models that see: ViT, DINOv2 with registers, CLIP, Swin and SAM, and one that reads."""
    import transformers

    from benchmarks.families import BERT, CLIP, DINO, SAM, SWIN, VIT, WINDOWED, build

    made = {
        "tiny-dino": ("Dinov2WithRegisters", DINO | {"num_register_tokens": 2}, 15),
        "tiny-clip": ("CLIP", CLIP, 15),
        "tiny-bert": ("Bert", BERT, 0),
        "tiny-cnn": ("ResNet", {"hidden_sizes": [8, 8], "depths": [1, 1], "embedding_size": 8}, 16),
    }
    for name, (family, config, side) in made.items():
        config = getattr(transformers, f"{family}Config")(**config)
        save(getattr(transformers, f"{family}Model")(config), tmp_path / name, side)
    save(build(WINDOWED[0]), tmp_path / "tiny-swin", SWIN["image_size"])
    save(build(next(family for family in WINDOWED if family.name == "SAM, vision")), tmp_path / "tiny-sam", 15)
    save(transformers.ViTModel(transformers.ViTConfig(**VIT)), tmp_path / "tiny-vit-bare", 0)
    assert SAM["image_size"] == 15
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))


def save(module, folder, side):
    module.save_pretrained(folder)
    if side:
        told = {"image_processor_type": "ViTImageProcessor", "size": {"height": side, "width": side}}
        (folder / "preprocessor_config.json").write_text(json.dumps(told))


def as_file(picture, kind="PNG"):
    out = io.BytesIO()
    picture.save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_opens_with_the_head_that_finds_what_is_red(open_page, lang):
    page = open_page(PAGE, lang=lang)
    assert not page.exception
    sent, meta = arrays(page, "picture_map"), payload(page, "picture_map")
    assert sent["picture"].shape == (64, 64, 3)
    assert sent["weights"].shape == (65, 65)
    np.testing.assert_allclose(sent["weights"].sum(-1), 1, atol=1e-5)
    best = meta["keys"][sent["weights"][meta["default"]].argmax()]
    row, column = (int(n) - 1 for n in best.split("·"))
    red, green, blue = sent["picture"][8 * row + 4, 8 * column + 4].astype(int)
    assert red > 150 > max(green, blue)
    assert ("triangle" if lang == "en" else "삼각형") in said(page)
    assert re.search(r"1,000\D+99\d", said(page))
    assert (meta["queries"][0], meta["grid"], meta["window"]) == ("[CLS]", [8, 8], None)
    assert arrays(page, "picture_heads")["tiles"].shape == (4, 8, 8)


def test_head_layer_and_way_change_the_picture(open_page):
    page = open_page(PAGE, lang="en")
    before = arrays(page, "picture_map")["weights"]
    page = fire(page, "picture_heads", "picked", 0)
    assert link(page)["picture_head"] == "1"
    one = arrays(page, "picture_map")["weights"]
    assert np.abs(one - before).max() > 0.1
    heads = [one] + [arrays(fire(page, "picture_heads", "picked", n), "picture_map")["weights"] for n in (1, 2, 3)]
    page.segmented_control(key="picture_way").set_value("mean").run()
    mean = arrays(page, "picture_map")["weights"]
    np.testing.assert_allclose(mean, np.mean(heads, axis=0), atol=1e-6)
    page.segmented_control(key="picture_way").set_value("rollout").run()
    np.testing.assert_allclose(arrays(page, "picture_map")["weights"], (mean + np.eye(65)) / 2, atol=1e-6)
    assert "Rollout through layers 1 to 1" in said(page)
    page.slider(key="picture_layer").set_value(4).run()
    assert "Rollout through layers 1 to 4" in said(page)
    assert link(page)["picture_layer"] == "4"


def test_a_link_comes_back_identical(open_page):
    wanted = {
        "lang": "ko",
        "vision": "tiny-vit",
        "picture": "cat",
        "picture_layer": "3",
        "picture_way": "mean",
        "picture_head": "2",
        "query": "17",
        "present": "no",
    }
    page = open_page(PAGE, **wanted)
    assert not page.exception
    assert link(page) == wanted
    assert payload(page, "picture_map")["pinned"] == 17


@pytest.mark.parametrize(
    ("bad", "default"),
    [
        ({"vision": "minilm"}, ("vision", "tiny-vit")),
        ({"vision": "../x"}, ("vision", "tiny-vit")),
        ({"picture": "<b>"}, ("picture", "shapes")),
        ({"picture_layer": "5"}, ("picture_layer", "1")),
        ({"picture_head": "0"}, ("picture_head", "3")),
        ({"picture_way": "flow"}, ("picture_way", "head")),
        ({"query": "65"}, ("picture_head", "3")),
    ],
    ids=str,
)
def test_links_that_say_nonsense(open_page, bad, default):
    page = open_page(PAGE, lang="en", **bad)
    assert not page.exception
    assert link(page)[default[0]] == default[1]
    assert "does not exist" in captions(page)


def test_an_own_picture(open_page):
    page = open_page(PAGE, lang="en", picture="own")
    assert not page.exception
    assert "No picture is chosen yet" in captions(page)
    green = Image.new("RGB", (300, 200), (0, 200, 0))
    page.file_uploader[0].upload("green.jpg", as_file(green, "JPEG"), "image/jpeg").run()
    assert not page.exception
    assert not page.error
    assert np.abs(arrays(page, "picture_map")["picture"].astype(int) - [0, 200, 0]).max() <= 3


def test_an_own_picture_is_still_there_after_another_page(open_page):
    page = open_page(PAGE, lang="en", picture="own")
    page.file_uploader[0].upload("blue.png", as_file(Image.new("RGB", (40, 40), (0, 0, 210))), "image/png").run()
    page.switch_page("app.py").run()
    page.switch_page(PAGE).run()
    assert not page.exception
    assert link(page)["picture"] == "own"
    assert np.abs(arrays(page, "picture_map")["picture"].astype(int) - [0, 0, 210]).max() <= 3
    assert "from before" in captions(page)
    page.file_uploader[0].upload("bad.png", b"no picture", "image/png").run()
    assert page.error
    assert "from before" not in captions(page)


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"no picture at all", {"en": "no PNG, JPEG or WebP", "ko": "사진이 아닙니다"}),
        (b"", {"en": "is empty", "ko": "빈 파일"}),
        (as_file(Image.effect_noise((99, 99), 50))[:999], {"en": "damaged", "ko": "손상"}),
        (as_file(Image.new("1", (6000, 5000))), {"en": "6000 × 5000", "ko": "6000 × 5000"}),
    ],
    ids=["text", "empty", "half", "huge"],
)
def test_odd_files_get_a_sentence_and_the_picture_stays(open_page, lang, data, words):
    page = open_page(PAGE, lang=lang, picture="own")
    page.file_uploader[0].upload("odd.png", data, "image/png").run()
    assert not page.exception
    assert words[lang] in page.error[0].value
    assert arrays(page, "picture_map")["weights"].shape == (65, 65)


@pytest.mark.usefixtures("own_models")
def test_own_models_stand_beside_gazes(open_page):
    page = open_page(PAGE, lang="en", vision="tiny-dino")
    assert not page.exception
    names = page.segmented_control(key="vision").options
    assert len(names) == 7
    assert not any("bert" in name for name in names)
    assert payload(page, "picture_map")["queries"][:4] == ["[CLS]", "[REG1]", "[REG2]", "1·1"]
    assert "Darcet" in captions(page)
    assert not [m for m in page.markdown if "The model says" in m.value]
    page = open_page(PAGE, lang="en", vision="tiny-clip")
    assert not page.exception
    assert payload(page, "picture_map")["grid"] == [3, 3]


@pytest.mark.usefixtures("own_models")
@pytest.mark.parametrize("lang", ["en", "ko"])
def test_windows_are_chosen(open_page, lang):
    page = open_page(PAGE, lang=lang, vision="tiny-swin", picture_layer="2", window="9")
    assert not page.exception
    sent, meta = arrays(page, "picture_map"), payload(page, "picture_map")
    assert (meta["grid"], meta["window"], sent["weights"].shape) == ([7, 7], 8, (9, 9))
    assert sent["owner"].shape == (7, 7)
    assert len(np.unique(sent["owner"])) == 9
    assert not sent["allowed"].all()
    assert ("9 windows" if lang == "en" else "창 9개") in captions(page)
    page = fire(page, "picture_map", "window", 4)
    assert link(page)["window"] == "5"
    assert payload(page, "picture_map")["window"] == 4
    page.number_input(key="window").set_value(2).run()
    assert payload(page, "picture_map")["window"] == 1
    page.slider(key="picture_layer").set_value(3).run()
    assert not page.exception
    assert payload(page, "picture_map")["grid"] == [4, 4]
    assert "2 × 2" in captions(page)
    assert payload(page, "picture_map")["cell"] == pytest.approx([8 / 28, 8 / 28])
    assert arrays(page, "picture_heads")["tiles"].shape[0] == 6


@pytest.mark.usefixtures("own_models")
def test_sam_has_layers_with_windows_and_without(open_page):
    page = open_page(PAGE, lang="en", vision="tiny-sam", picture_layer="1", window="1")
    assert not page.exception
    assert arrays(page, "picture_map")["weights"].shape == (4, 4)
    page.slider(key="picture_layer").set_value(2).run()
    assert not page.exception
    assert arrays(page, "picture_map")["weights"].shape == (9, 9)
    assert payload(page, "picture_map")["window"] is None


@pytest.mark.usefixtures("own_models")
@pytest.mark.parametrize(("model", "reason"), [("tiny-vit-bare", "preprocessor_config"), ("tiny-cnn", "can't be seen")])
def test_a_model_that_can_not_be_shown_says_why(open_page, model, reason):
    page = open_page(PAGE, lang="en", vision=model)
    assert not page.exception
    assert len(page.error) == 1
    assert reason in page.error[0].value.replace("\\", "")
    assert "/tmp" not in page.error[0].value


@pytest.mark.usefixtures("own_models")
@pytest.mark.parametrize("path", TEXT_PAGES)
def test_text_pages_offer_no_model_that_only_sees(open_page, path):
    page = open_page(path, lang="en", model="tiny-swin", a_model="tiny-swin", text="words for a page")
    assert not page.exception
    offered = {name for control in page.segmented_control for name in control.options if "tiny" in name}
    assert {name.replace("\\", "") for name in offered} <= {"tiny-bert"}
    if path == "pages/sentence.py":
        assert link(page)["model"] == "minilm"
        assert "tiny-swin looks at pictures" in said(page)
        assert "[Picture](picture)" in said(page)
        assert "does not exist" not in said(page)
        page.slider(key="layer").set_value(2).run()
        assert "looks at pictures" not in said(page)


@pytest.mark.parametrize("way", ["head", "rollout"])
def test_take_away(open_page, way):
    page = open_page(PAGE, lang="en", picture_way=way, picture="pair")
    page.session_state["take_picture"] = True
    page.run()
    assert not page.exception
    assert len(page.get("download_button")) == (2 if way == "head" else 1)
    code = page.code[-1].value
    assert way in code
    told = {}
    exec(code.replace("print(", "told.update(found="), {"told": told})  # the lines are run, as a notebook would
    shown = arrays(page, "picture_map")["weights"][0]
    np.testing.assert_allclose(list(told["found"].values()), shown, atol=1e-6)
    assert next(iter(told["found"])) == "[CLS]"


def test_the_archive_is_the_heads(open_page):
    from attention_core import compute
    from attention_core import picture_jobs as jobs

    page = open_page(PAGE, lang="en")
    file = np.load(io.BytesIO(compute.run(jobs.archive, "tiny-vit", "shapes", 0, 2, 0)))
    np.testing.assert_allclose(file["weights"], arrays(page, "picture_map")["weights"], atol=1e-6)
    assert file["queries"][1] == "1·1"
    assert file["query"].shape == (65, 12)


def test_uploads_are_bounded(monkeypatch):
    from attention_core import picture_jobs as jobs

    files = [as_file(Image.new("RGB", (9, 9), (n, 0, 0))) for n in range(5)]
    monkeypatch.setattr(jobs, "UPLOADS", sum(map(len, files[2:])))
    names = [jobs.keep(data) for data in files]
    assert list(jobs._uploads) == names[2:]
    assert jobs.keep(files[2]) == names[2]
    assert list(jobs._uploads)[-1] == names[2]  # what is looked at goes last
