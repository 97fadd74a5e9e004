import json
import tomllib
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch
from plotly import io

from attention_core import Formula, capture, trace_attention
from attention_core.views import view_head
from figures.colours import PALETTES
from figures.heatmaps import LONGEST_LABEL, head_heatmap

Q, K, D, V = 5, 7, 11, 13  # no axis can stand in for another
QUERIES = ("the", "cat", "saw", "the", "mat")
KEYS = ("the", "dog", "on", "the", "mat", "and", "the")
HOSTILE = (
    "</script><b>x</b>",
    "$x^2$ **b**",
    "<img src=x onerror=alert(1)>",
    "&lt;i&gt; &copy; &#60;",
    "%{z} <br>",
    "$<b>$",
    "plain",
)


@pytest.fixture
def trace():
    return trace_attention(torch.randn(1, Q, D), torch.randn(1, K, D), torch.randn(1, K, V)).head(0)


@pytest.fixture
def unchecked():
    """Switch off the types that only tests check, so that the product's own message is met."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def plotly_reads(text):
    """What plotly.js shows of a text without tags and dollars: entities become letters, once, from left to right."""
    assert not set(text) & set("<>$")
    before, *rest = text.split("&#")
    return before + "".join(chr(int(part[: part.index(";")])) + part[part.index(";") + 1 :] for part in rest)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("show", ["raw", "scaled", "weights"])
def test_what_is_drawn_is_what_the_core_computed(trace, show, theme):
    scores = getattr(trace, show).numpy()
    figure = head_heatmap(scores, QUERIES, KEYS, show=show, theme=theme)
    np.testing.assert_array_equal(figure.data[0].z, scores)
    assert json.loads(figure.to_json())["data"][0]["z"]["shape"] == f"{Q}, {K}"


def test_a_head_view(models):
    view = view_head(capture(models["smollm2"], "the cat saw the mat"), 2, 3)
    figure = head_heatmap(view.weights, view.queries, view.keys, show="weights", allowed=view.allowed)
    drawn = figure.data[0].z
    np.testing.assert_array_equal(np.isnan(drawn), ~view.allowed)
    np.testing.assert_array_equal(drawn[view.allowed], view.weights[view.allowed])
    raw = head_heatmap(view.raw[0], view.queries, view.keys, show="raw", allowed=view.allowed)
    assert raw.data[0].zmax == np.abs(view.raw[0][view.allowed]).max()  # what is not drawn does not count


def test_axes_and_equal_labels(trace):
    figure = head_heatmap(trace.weights.numpy(), QUERIES, KEYS, show="weights")
    x, y = figure.layout.xaxis, figure.layout.yaxis
    assert (y.ticktext, y.tickvals) == (QUERIES, tuple(range(Q)))
    assert (x.ticktext, x.tickvals) == (KEYS, tuple(range(K)))
    assert y.range[0] > y.range[1]  # the first query on top
    assert x.range == (-0.5, K - 0.5)
    assert x.side == "top"
    assert [pair[0] for row in figure.data[0].customdata for pair in row[:1]] == list(QUERIES)
    assert [pair[1] for pair in figure.data[0].customdata[0]] == list(KEYS)
    assert "%{z:.4f}" in figure.data[0].hovertemplate


def test_cells_are_squares(trace):
    layout = head_heatmap(trace.weights.numpy(), QUERIES, KEYS, show="weights", title="a").layout
    margin = layout.margin
    wide, high = layout.width - margin.l - margin.r, layout.height - margin.t - margin.b
    assert wide / K == pytest.approx(high / Q, abs=1)


def test_many_tokens_keep_some_labels_and_all_hover_texts():
    tokens = 307
    names = [f"token {n}" for n in range(tokens)]
    figure = head_heatmap(np.eye(tokens, dtype=np.float32), names, names, show="weights")
    axis = figure.layout.xaxis
    assert 10 < len(axis.tickvals) < 100
    assert list(axis.ticktext) == [names[place] for place in axis.tickvals]
    assert tuple(figure.data[0].customdata[306][305]) == ("token 306", "token 305")
    assert max(figure.layout.width, figure.layout.height) < 1000


def test_an_endless_label_is_shortened_on_the_axis_alone():
    figure = head_heatmap(np.ones((1, 2), np.float32), ["x" * 500], ["<" * 500, "b"], show="weights")
    assert [len(plotly_reads(figure.layout[axis].ticktext[0])) for axis in ("xaxis", "yaxis")] == [LONGEST_LABEL] * 2
    assert figure.data[0].customdata[0][0][0] == "x" * 500
    assert figure.layout.width < 700


@pytest.mark.parametrize("title", HOSTILE)
def test_typed_text_is_only_text(trace, title):
    figure = head_heatmap(trace.weights.numpy(), HOSTILE[:Q], HOSTILE, show="weights", title=title)
    assert tuple(plotly_reads(text) for text in figure.layout.xaxis.ticktext) == HOSTILE
    assert tuple(plotly_reads(text) for text in figure.layout.yaxis.ticktext) == HOSTILE[:Q]
    assert [plotly_reads(key) for _, key in figure.data[0].customdata[0]] == list(HOSTILE)
    assert plotly_reads(figure.layout.title.text) == title


def test_a_notebook_gets_no_markup_that_was_typed(trace):
    figure = head_heatmap(trace.weights.numpy(), HOSTILE[:Q], HOSTILE, show="weights", title=HOSTILE[0])
    page = figure.to_html(include_plotlyjs=False)
    assert not [typed for typed in ("<b>x", "<img", "</script><b", "<i>", "$x^2", "onerror=alert(1)>") if typed in page]
    assert page.count("<script") == page.count("</script>")


def test_ranges(trace):
    weights = head_heatmap(trace.weights.numpy(), QUERIES, KEYS, show="weights").data[0]
    assert (weights.zmin, weights.zmax) == (0, trace.weights.max().item())
    assert weights.colorbar.tickvals == (0, trace.weights.max().item())
    scaled = head_heatmap(trace.scaled.numpy(), QUERIES, KEYS, show="scaled").data[0]
    assert scaled.zmax == -scaled.zmin == trace.scaled.abs().max().item()
    assert scaled.colorbar.tickvals == (trace.scaled.min().item(), 0, trace.scaled.max().item())


@pytest.mark.parametrize(
    ("scores", "marks"),
    [([[3.0, 8.0]], (0, 3, 8)), ([[-9.0, -3.0]], (-9, -3, 0)), ([[-0.1, 8.0]], (0, 8)), ([[0.0, 0.0]], (0,))],
)
def test_the_colour_bar_names_the_true_range_and_zero(scores, marks):
    chart = head_heatmap(np.array(scores), ["a"], ["b", "c"], show="raw").data[0]
    assert chart.colorbar.tickvals == marks
    assert chart.zmax == -chart.zmin > 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_zero_has_the_colour_of_the_page(trace, theme):
    weights = head_heatmap(trace.weights.numpy(), QUERIES, KEYS, show="weights", theme=theme)
    scores = head_heatmap(trace.raw.numpy(), QUERIES, KEYS, show="raw", theme=theme)
    page = weights.layout.paper_bgcolor
    assert page == PALETTES[theme].background == weights.data[0].colorscale[0][1]
    assert (0.5, page) in scores.data[0].colorscale
    assert weights.layout.plot_bgcolor not in (page, *PALETTES[theme].weights, *PALETTES[theme].scores)
    assert weights.layout.font.color == PALETTES[theme].text


def test_colours_are_those_of_the_app():
    themes = tomllib.loads((Path(__file__).parents[2] / ".streamlit/config.toml").read_text())["theme"]
    for name, palette in PALETTES.items():
        theme = themes[name]
        assert (palette.background, palette.text) == (theme["backgroundColor"], theme["textColor"])
        assert list(palette.weights) == theme["chartSequentialColors"]
        assert list(palette.scores) == theme["chartDivergingColors"]
        assert palette.weights[-1] == theme["primaryColor"]


def test_where_nothing_may_be_looked_at_stays_empty():
    q = torch.randn(1, Q, D)
    trace = trace_attention(q, q, q, Formula(causal=True)).head(0)
    scores = trace.scaled.numpy().copy()
    scores[0] = np.nan
    scores[1, 0] = -np.inf
    drawn = head_heatmap(scores, QUERIES, QUERIES, show="scaled", allowed=trace.allowed.numpy()).data[0]
    expected = trace.allowed.numpy().copy()
    expected[0], expected[1, 0] = False, False
    np.testing.assert_array_equal(~np.isnan(drawn.z), expected)
    assert drawn.hoverongaps is False
    nothing = head_heatmap(scores[:1], ["a"], QUERIES, show="scaled").data[0]
    assert np.isnan(nothing.z).all()
    assert nothing.zmax > nothing.zmin


def test_nothing_is_changed_and_nothing_global_matters(trace, monkeypatch):
    scores, allowed = trace.weights.numpy().copy(), np.ones((Q, K), dtype=bool)
    allowed[:, 3] = False
    before = scores.copy()
    scores.setflags(write=False)
    allowed.setflags(write=False)
    templates = io.templates.default
    figure = head_heatmap(scores, QUERIES, KEYS, show="weights", allowed=allowed)
    np.testing.assert_array_equal(scores, before)
    assert io.templates.default == templates
    monkeypatch.setattr(io.templates, "default", "ggplot2")
    assert head_heatmap(scores, QUERIES, KEYS, show="weights", allowed=allowed).to_json() == figure.to_json()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"queries": QUERIES[:3]}, r"\(5, 7\) do not fit 3 queries and 7 keys"),
        ({"keys": QUERIES}, r"\(5, 7\) do not fit 5 queries and 5 keys"),
        ({"scores": np.ones((1, Q, K))}, r"queries × keys.*\(1, 5, 7\)"),
        ({"scores": np.ones((0, K)), "queries": ()}, r"at least one.*\(0, 7\)"),
        ({"allowed": np.ones((K, Q), dtype=bool)}, r"allowed \(7, 5\) does not fit scores \(5, 7\)"),
        ({"scores": np.full((Q, K), np.inf)}, "∞"),
        ({"show": "nonsense"}, "nonsense"),
        ({"theme": "nonsense"}, "nonsense"),
    ],
)
def test_what_does_not_fit_is_named(changes, words):
    given = {"scores": np.ones((Q, K)), "queries": QUERIES, "keys": KEYS, "show": "weights"} | changes
    with pytest.raises(ValueError, match=words):
        head_heatmap(given.pop("scores"), given.pop("queries"), given.pop("keys"), **given)
