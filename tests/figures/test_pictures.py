"""The SVGs: well-formed whatever the labels, and their colours and numbers are those of the core."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from figures.colours import DARK, LIGHT
from figures.pictures import heatmap_svg, links_svg

SVG = "{http://www.w3.org/2000/svg}"
LABELS = ["</text><script>alert(1)</script>", "a&b", "\x00\ud800", "은행 💩", '"=x"', "plain", "שלום"]
WEIGHTS = np.random.default_rng(3).dirichlet(np.ones(7), 7).astype(np.float32)


def texts(svg):
    return [e.text for e in ET.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize(
    "draw",
    [
        lambda **kw: heatmap_svg(WEIGHTS, LABELS, LABELS, show="weights", **kw),
        lambda **kw: links_svg(WEIGHTS, LABELS, LABELS, **kw),
    ],
)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_labels_are_text_and_nothing_else(draw, theme):
    tree = ET.fromstring(draw(theme=theme, title="<b>&"))
    assert {e.tag for e in tree.iter()} <= {SVG + tag for tag in ("svg", "rect", "text", "path")}
    said = [e.text for e in tree.iter(f"{SVG}text")]
    assert {"<b>&", "a&b", "\ufffd\ufffd", "은행 💩", "</text><script>alert(1)…"} <= set(said)


@pytest.mark.parametrize(("theme", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_colours_are_where_the_weights_are(theme, palette):
    svg = heatmap_svg(np.eye(7, dtype=np.float32), LABELS, LABELS, show="weights", theme=theme)
    boxes = [e.attrib for e in ET.fromstring(svg).iter(f"{SVG}rect")][1:]
    accent = [b for b in boxes if b["fill"] == palette.weights[-1] and float(b["height"]) > 11]
    assert len(accent) == 7
    places = sorted((float(b["x"]), float(b["y"])) for b in accent)
    assert np.allclose(np.diff(places, axis=0), float(accent[0]["height"]))  # down the diagonal
    assert all(float(b["width"]) == float(b["height"]) for b in accent)


def test_every_number_is_written():
    said = texts(heatmap_svg(WEIGHTS, LABELS, LABELS, show="weights"))
    assert {f"{w:.2f}" for w in WEIGHTS.flat} <= set(said)
    assert said[-1] == f"{WEIGHTS.max():.2f}"


def test_scores_diverge_about_zero_and_what_is_not_allowed_is_grey():
    scores = np.array([[-2.0, 0.0], [2.0, 5.0]], dtype=np.float32)
    allowed = np.array([[True, True], [True, False]])
    svg = heatmap_svg(scores, ["a", "b"], ["a", "b"], show="raw", allowed=allowed)
    fills = [e.attrib["fill"] for e in ET.fromstring(svg).iter(f"{SVG}rect")][1:5]
    assert fills == [LIGHT.scores[0], LIGHT.background, LIGHT.scores[-1], LIGHT.blocked]
    assert texts(svg)[-2:] == ["\u22122.00", "2.00"]


def test_lines_are_as_strong_as_the_weights():
    paths = [e.attrib for e in ET.fromstring(links_svg(WEIGHTS, LABELS, LABELS)).iter(f"{SVG}path")]
    drawn = np.sort(WEIGHTS[WEIGHTS >= 0.01])
    assert [float(p["stroke-width"]) for p in paths] == pytest.approx(0.6 + 5 * drawn, abs=0.006)
    pinned = links_svg(WEIGHTS, LABELS, LABELS, pinned=2)
    assert len([*ET.fromstring(pinned).iter(f"{SVG}path")]) == (WEIGHTS[2] >= 0.01).sum()
    assert {f"{w:.2f}" for w in WEIGHTS[2] if w >= 0.01} <= set(texts(pinned))


def test_a_long_text_stays_small():
    """512 tokens: runs of one colour are one box, and labels are thinned."""
    weights = np.tril(np.ones((512, 512), dtype=np.float32))
    weights /= weights.sum(axis=1, keepdims=True)
    names = [f"w{n}" for n in range(512)]
    assert len(heatmap_svg(weights, names, names, show="weights")) < 2_000_000


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="do not fit 6 queries"):
        heatmap_svg(WEIGHTS, LABELS[1:], LABELS, show="weights")
    with pytest.raises(ValueError, match="no query 7 among 7"):
        links_svg(WEIGHTS, LABELS, LABELS, pinned=7)


def test_logarithmic_colours_show_three_powers_of_ten():
    weights = np.array([[1.0, 0.1], [0.001, 0.0]], dtype=np.float32)
    svg = heatmap_svg(weights, ["a", "b"], ["a", "b"], show="weights", log=True)
    fills = [e.attrib["fill"] for e in ET.fromstring(svg).iter(f"{SVG}rect")][1:4]
    assert fills[0] == LIGHT.weights[-1]
    assert fills[1] == LIGHT.weights[6]  # a tenth of the largest: two thirds of the way
    assert fills[2] == LIGHT.weights[0]  # one run: 0.001 and 0 look the same
    assert "≤ 0.001" in texts(svg)


def test_keys_without_the_first_stand_level_with_themselves():
    names = list("abcdefg")
    drawn = ET.fromstring(links_svg(WEIGHTS[:, 1:], names, names[1:], down=1))
    heights = {}
    for text in drawn.iter(f"{SVG}text"):
        heights.setdefault(text.text, []).append(text.get("y"))
    both = [places for places in heights.values() if len(places) == 2]
    assert len(both) == len(names) - 1
    assert all(one == two for one, two in both)
    ends = {path.get("d").split(",")[-1] for path in drawn.iter(f"{SVG}path")}
    assert float(heights["a"][0]) - 5 not in {float(end) for end in ends}


def test_files_name_fonts_that_have_korean_letters():
    family = ET.fromstring(links_svg(WEIGHTS, LABELS, LABELS)).get("font-family").split(", ")
    assert {"Malgun Gothic", "Apple SD Gothic Neo", "Noto Sans CJK KR"} < set(family)
    assert family[-1] == "sans-serif"
