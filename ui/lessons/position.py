"""Position: the controls, cached doors and charts of the page; a head shuffled, the ways, the turns, the lengths."""

import html
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import streamlit as st

from attention_core import compute
from ui import controls, link
from ui.compute import LIMIT, door, head_view, reading
from ui.lesson import Look, Table, chart, look, redraw
from ui.pick import pick
from ui.show import focus, heat
from ui.text import heading, note, plain, say, t

if TYPE_CHECKING:
    from attention_core.labs.placed_head import PlacedHead

KINDS = ("none", "sinusoidal", "learned", "shaw", "t5", "alibi", "rope")
READERS = KINDS[1:]  # that were trained on short texts
FORMULAS = {
    "sinusoidal": r"PE_{pos,\,2i}=\sin\frac{pos}{10000^{2i/d}},\quad PE_{pos,\,2i+1}=\cos\frac{pos}{10000^{2i/d}}",
    "learned": r"x_{pos}=e_{word}+p_{pos},\quad p\in\mathbb{R}^{512\times d}\ \text{learned}",
    "shaw": r"e_{ij}=\frac{q_i\cdot\left(k_j+a_{\mathrm{clip}(j-i,\,\pm16)}\right)}{\sqrt{d_k}}",
    "t5": r"e_{ij}=\frac{q_i\cdot k_j}{\sqrt{d_k}}+b_{\mathrm{bucket}(j-i)}",
    "alibi": r"e_{ij}=\frac{q_i\cdot k_j}{\sqrt{d_k}}-m_h\,|i-j|,\quad m_h=2^{-8h/H}",
    "rope": (
        r"e_{mn}=\frac{\langle R_m q,\,R_n k\rangle}{\sqrt{d_k}}=\frac{q^{\top}R_{n-m}\,k}{\sqrt{d_k}},"
        r"\quad\theta_i=10000^{-2i/d_k}"
    ),
}
WORDS, LETTERS = 24, 200  # of the sentence whose words are turned
MODEL, WIDE = "smollm2", 100  # whose query and key are turned, and how far apart they can be put
BASES = (100, 1_000, 10_000, 100_000, 1_000_000)
LENGTHS = (8, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256)
TRAINED = 32
NUMBERS = 4  # of a context vector that are written out


class Asked(NamedTuple):
    """A sentence in MiniLM's first layer: the head from 0, how it knows positions, and the seed of the shuffle."""

    text: str
    head: int
    kind: str
    seed: int


class Turn(NamedTuple):
    """A real query and key of SmolLM2, where they are put, the pair of features shown (from 0), and the base."""

    text: str
    query: int
    key: int
    m: int
    n: int
    pair: int
    base: int


class Long(NamedTuple):
    """The learner's length, RoPE's base, whether positions are interpolated, and the seed of the texts."""

    length: int
    base: int
    stretched: bool
    seed: int


@partial(door, most=32)  # up to two megabytes each
def _placed(text: str, head: int, kind: str, seed: int) -> "PlacedHead":
    from attention_core.labs.placed_head import placed_head, shuffled

    order = shuffled(len(reading("minilm", text).labels), seed) if seed else ()
    return compute.run(placed_head, text, LIMIT, head, kind, order)


@door
def _picture(kind: str, head: int) -> np.ndarray:
    from attention_core.labs.placed_head import picture

    return compute.run(picture, kind, head)


@door
def _over_distance(kind: str, head: int) -> tuple:
    from attention_core.labs.placed_head import over_distance

    return compute.run(over_distance, kind, head)


@door
def _vectors(text: str) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Return SmolLM2's tokens, and one head's queries and keys before they are turned: pairs are (i, i + D/2)."""
    layer, head = (n - 1 for n in controls.BEST_HEAD[MODEL])
    turned = compute.run(compute.turned, MODEL, text, LIMIT, layer, head)
    order = turned.pairs.T.ravel()
    return reading(MODEL, text).labels, turned.query_before[:, order], turned.key_before[:, order]


@door
def _turned_scores(text: str, query: int, key: int, base: int) -> np.ndarray:
    """Return the score of a query and a key at every distance m − n from −WIDE to WIDE."""
    from attention_core.labs.positions import turned_scores

    _, queries, keys = _vectors(text)
    return compute.run(turned_scores, queries[query], keys[key], WIDE, float(base))


@door
def _answers(kind: str, length: int, base: int, stretched: bool, seed: int) -> float:
    from attention_core.labs.length import accuracy

    stretch = max(1.0, length / TRAINED) if stretched else 1.0
    return compute.run(lambda: accuracy(kind, length, base=float(base), stretch=stretch, seed=seed))


def _accuracy(kind: str, length: int, base: int, stretched: bool, seed: int) -> float:
    """Return how often a small model is right; what changes nothing for its way is not computed anew."""
    own = base if kind == "rope" else BASES[0]
    return _answers(kind, length, own, stretched and kind in ("rope", "sinusoidal"), seed)


# Order


def shuffle_controls(text: str) -> Asked:
    """Ask for a way, a head and a shuffle."""
    reading("minilm", text)  # what is wrong with the text is said first
    kind = pick("position.way", KINDS, "none", name=_name)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        head = link.restore("pos_head", 4, link.whole(1, 12))
        st.slider(t("position.head"), 1, 12, key="pos_head", width=220)
        seed = link.restore("pos_seed", 1, link.whole(1, 9999))
        st.button(
            t("position.shuffle"), key="pos_again", icon=":material/shuffle:", on_click=redraw, args=("pos_seed",)
        )
    return Asked(text, head - 1, kind, seed)


def shuffled(asked: Asked) -> None:
    """Draw the head in the sentence's order and in another one, and say what that changes in what words take along."""
    from attention_core.labs.placed_head import moved
    from attention_core.views import view_weights

    before, after = _placed(*asked[:3], 0), _placed(*asked)
    change = moved(before, after)
    columns = st.columns(2, gap="large")
    for column, found, name in zip(columns, (before, after), ("typed", "mixed"), strict=True):
        with column:
            heading(f"position.{name}")
            seen = view_weights(found.labels, found.labels, found.weights)
            heat(seen, "weights", view=f"position-{name}", several=True)
    if len(before.labels) < 4:
        note("position.too_few")
    _rows(before, after, change)
    most = int(change.argmax())
    if change[most] < 1e-5:
        say("position.same", most=f"{change[most]:.0e}")
    else:
        say("position.changed", word=before.labels[most].strip("·"), most=f"{change[most]:.2f}")
    note(f"position.here_{asked.kind}")


def _rows(before: "PlacedHead", after: "PlacedHead", change: np.ndarray) -> None:
    """Write out the beginning of what each word takes along, in both orders."""
    place = np.argsort(after.order)
    heads = ("word", "first", "second", "apart")
    rows = ["".join(f"<th>{t(f'position.{name}', count=NUMBERS)}</th>" for name in heads)]
    for n, label in list(enumerate(before.labels))[:12]:
        one, two = (_written(found.context[at, :NUMBERS]) for found, at in ((before, n), (after, place[n])))
        moved = f"{change[n]:.2f}" if change[n] >= 1e-5 else "0"
        rows.append(f"<th>{html.escape(label)}</th><td>{one}</td><td>{two}</td><td>{moved}</td>")
    st.html(f'<table class="gaze-table">{"".join(f"<tr>{row}</tr>" for row in rows)}</table>')
    if len(before.labels) > 12:
        note("position.more", left=len(before.labels) - 12)


# The ways


def way(asked: Asked) -> None:
    """Show a way: its formula, its picture, and its number over the distance."""
    kind = asked.kind
    if kind == "none":
        say("position.choose")
        return
    say(f"position.what_{kind}")
    st.latex(FORMULAS[kind])
    left, right = st.columns(2, gap="large")
    with left:
        heading(f"position.picture_{kind}")
        chart(_picture_chart(kind, asked.head, look()), "position-picture")
    with right:
        heading(f"position.curve_{kind}")
        chart(_curve_chart(kind, asked.head, look()), "position-curve")


# The turns


def turn_controls(text: str) -> Turn:
    """Ask for a query and a key of a real head, where to put them, and at what a pair of features to look."""
    text = _beginning(text)
    reading(MODEL, text)
    labels, queries, _ = _vectors(text)
    last, pairs = len(labels), queries.shape[1] // 2
    layer, head = (n - 1 for n in controls.BEST_HEAD[MODEL])
    usual = focus(head_view(MODEL, text, layer, head, "token", "shown"))[0]
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        query = link.restore("turn_query", usual + 1, link.whole(1, last)) - 1
        key = link.restore("turn_key", max(1, usual - 1), link.whole(1, last)) - 1
        if last > 1:
            for name, at in (("query", query), ("key", key)):
                st.slider(
                    t(f"position.turn_{name}", word=plain(labels[at].strip("·"))),
                    1,
                    last,
                    key=f"turn_{name}",
                    width=220,
                )
        base = link.restore("turn_base", 100_000, link.one_of(*BASES))
        st.select_slider(t("position.base"), BASES, key="turn_base", width=200, format_func=lambda n: f"{n:,}")
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        m = link.restore("turn_m", 5, link.whole(0, WIDE))
        st.slider(t("position.m"), 0, WIDE, key="turn_m", width=260)
        n = link.restore("turn_n", 3, link.whole(0, WIDE))
        st.slider(t("position.n"), 0, WIDE, key="turn_n", width=260)
        pair = link.restore("turn_pair", 1, link.whole(1, pairs))
        st.slider(t("position.pair"), 1, pairs, key="turn_pair", width=220)
        st.button(t("position.together"), key="turn_both", on_click=_both, disabled=max(m, n) >= WIDE)
    return Turn(text, query, key, m, n, pair - 1, base)


def _beginning(text: str) -> str:
    """Return the first words of a text, and say so where there are more: sliders can't tell hundreds apart."""
    short = " ".join(text.split()[:WORDS])[:LETTERS]
    if len(short) < len(" ".join(text.split())):
        note("position.beginning")
    return short


def turned(turn: Turn) -> None:
    """Draw the two arrows before and after they are turned, and the whole score over the distance."""
    from figures.rotation import arrows

    labels, queries, keys = _vectors(turn.text)
    half = queries.shape[1] // 2
    speed = float(turn.base) ** (-turn.pair / half)
    ends = [of[at, [turn.pair, turn.pair + half]] for of, at in ((queries, turn.query), (keys, turn.key))]
    angles = turn.m * speed, turn.n * speed
    spun = [_spun(end, angle) for end, angle in zip(ends, angles, strict=True)]
    names = tuple(f"{name} “{labels[at].strip('·')}”" for name, at in (("q", turn.query), ("k", turn.key)))
    left, right = st.columns([2, 3], gap="large")
    with left:
        heading("position.arrows")
        reach = max(float(np.hypot(*end)) for end in ends)
        chart(
            arrows(*spun, names, reach=reach, turned=tuple(zip(ends, angles, strict=True)), **look().style),
            "turn-arrows",
        )
    with right:
        heading("position.turn_curve")
        chart(_turn_chart(turn, look()), "turn-curve")
    score = float(_turned_scores(turn.text, turn.query, turn.key, turn.base)[WIDE + turn.m - turn.n])
    own = float(spun[0] @ spun[1])
    say(
        "position.turn_said",
        m=turn.m,
        n=turn.n,
        distance=turn.m - turn.n,
        score=_signed(score),
        pair=turn.pair + 1,
        own=_signed(own),
        theta=f"{speed:.4g}",
    )


# The lengths


def length_controls() -> Long:
    """Ask for a length, and what is done to the positions."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        length = link.restore("long_n", 64, link.one_of(*LENGTHS))
        st.select_slider(t("position.length"), LENGTHS, key="long_n", width=320)
        base = link.restore("long_base", 10_000, link.one_of(*BASES))
        st.select_slider(t("position.long_base"), BASES, key="long_base", width=220, format_func=lambda n: f"{n:,}")
        stretched = link.restore("long_stretch", False, link.switch)
        st.toggle(t("position.stretch"), key="long_stretch", help=t("position.stretch_help"))
        seed = link.restore("long_seed", 7, link.whole(1, 9999))
        st.button(t("position.redraw"), key="long_again", on_click=redraw, args=("long_seed",))
    return Long(length, base, stretched, seed)


def lengths(long: Long) -> None:
    """Draw how often each small model is right over the length of the text, and say it at the learner's length."""
    chart(_length_chart(long, look()), "position-lengths")
    found = sorted(((_accuracy(kind, *long), kind) for kind in READERS), reverse=True)
    st.markdown(
        f"**{t('position.at_length', length=long.length)}** "
        + " · ".join(f"{_name(kind)} {share:.0%}" for share, kind in found)
    )
    note("position.task", trained=TRAINED)


# The numbers


def tables(asked: Asked, turn: Turn, long: Long) -> Mapping[str, Table]:
    """Return every number behind the pictures."""
    before, after = _placed(*asked[:3], 0), _placed(*asked)
    parts = {}
    for name, found in (("typed", before), ("mixed", after)):
        size = [str(n + 1) for n in range(found.context.shape[1])]
        parts[f"{t(f'position.{name}')} · {t('position.weights')}"] = Table(found.labels, found.labels, found.weights)
        parts[f"{t(f'position.{name}')} · {t('position.context')}"] = Table(found.labels, size, found.context)
    if asked.kind != "none":
        far, values, _ = _over_distance(asked.kind, asked.head)
        parts[t(f"position.curve_{asked.kind}")] = Table([str(n) for n in far], [_name(asked.kind)], values[:, None])
    scores = _turned_scores(turn.text, turn.query, turn.key, turn.base)
    parts[t("position.turn_curve")] = Table(
        [str(n) for n in range(-WIDE, WIDE + 1)], [t("position.score")], scores[:, None]
    )
    shares = np.array([[_accuracy(kind, n, *long[1:]) for kind in READERS] for n in LENGTHS])
    parts[t("position.length_title")] = Table([str(n) for n in LENGTHS], [_name(kind) for kind in READERS], shares)
    return parts


# The charts, kept as they are


@st.cache_resource(max_entries=128, show_spinner=False)
def _picture_chart(kind: str, head: int, shown: Look) -> object:
    from figures.positions import place_square

    axes = {"sinusoidal": ("feature", "place")}.get(kind, ("key_place", "query_place"))
    names = dict(zip(("xaxis", "yaxis"), (t(f"position.{axis}") for axis in axes), strict=True))
    return place_square(_picture(kind, head), every=4 if kind == "learned" else 1, **names, **shown.style)


@st.cache_resource(max_entries=128, show_spinner=False)
def _curve_chart(kind: str, head: int, shown: Look) -> object:
    from figures.curves import Curve
    from figures.positions import over_distance

    far, values, (low, high) = _over_distance(kind, head)
    room = 0.06 * (high - low or 1)
    line = [Curve(_name(kind), far, values, 0)]
    return over_distance(line, xaxis=t("position.distance"), yaxis="", up=(low - room, high + room), **shown.style)


@st.cache_resource(max_entries=128, show_spinner=False)
def _turn_chart(turn: Turn, shown: Look) -> object:
    from figures.curves import Curve
    from figures.positions import over_distance

    scores = _turned_scores(turn.text, turn.query, turn.key, turn.base)
    line = [Curve(t("position.score"), range(-WIDE, WIDE + 1), scores, 0)]
    at = turn.m - turn.n
    mark = (float(at), float(scores[WIDE + at]))
    return over_distance(line, xaxis="m − n", yaxis=t("position.score"), mark=mark, **shown.style)


@st.cache_resource(max_entries=128, show_spinner=False)
def _length_chart(long: Long, shown: Look) -> object:
    from figures.curves import Curve, log_curves

    lines = [
        Curve(_name(kind), LENGTHS, [100 * _accuracy(kind, n, *long[1:]) for n in LENGTHS], colour)
        for colour, kind in enumerate(READERS)
    ]
    axes = {"xaxis": t("position.length"), "yaxis": "%", "unit": " %", "ticks": LENGTHS[::2], "straight": True}
    return log_curves(lines, marks=[float(TRAINED), float(long.length)], height=360, **axes, **shown.style)


# Small things


def _name(kind: str) -> str:
    return t(f"position.{kind}")


def _signed(number: float) -> str:
    return f"{number:.4f}".replace("-", "−")


def _written(numbers: np.ndarray) -> str:
    return " ".join(f"{x:.3f}".replace("-", "−") for x in numbers)


def _spun(end: np.ndarray, angle: float) -> np.ndarray:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([end[0] * cos - end[1] * sin, end[1] * cos + end[0] * sin])


def _both() -> None:
    state = st.session_state
    state["turn_m"], state["turn_n"] = state["turn_m"] + 1, state["turn_n"] + 1
