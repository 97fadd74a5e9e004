"""Variants: the controls, cached doors and charts of the page; tiles, patterns, approximations, one's own pattern."""

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import streamlit as st

from attention_core import compute
from ui import link
from ui.components.flash_tiles import flash_tiles
from ui.components.pattern_board import pattern_board
from ui.compute import LIMIT, door, reading
from ui.explorer.long_text import sample
from ui.lesson import Look, Table, chart, look, redraw
from ui.pick import pick
from ui.show import heat
from ui.text import heading, note, say, t, words

if TYPE_CHECKING:
    from attention_core.labs.flash import HeadTiles, Traffic
    from attention_core.labs.patterns import Painted

MODEL = "minilm"
CHAPTER = 900  # letters of the sample
MOST_TILED, MOST_PAINTED = 32, 16  # tokens
SIDES = (1, 2, 3, 4, 6, 8, 16)
FAST = tuple(2**n for n in range(7, 21))  # numbers in fast memory
PATTERNS = ("window", "bigbird", "strided", "dilated", "blocks")
RANDOM = ("random_features", "lsh")
WAYS = (*PATTERNS, "low_rank", "linear", *RANDOM)
NUMBERS = {  # what can be asked for; the middle one is there at first
    "window": (0, 1, 2, 4, 8, 16, 32, 64, 128),
    "bigbird": (0, 1, 2, 4, 8, 16, 32, 64, 128),
    "strided": (1, 2, 4, 8, 16, 32, 64),
    "dilated": (0, 1, 2, 4, 8, 16, 32, 64),
    "blocks": (1, 2, 4, 8, 16, 32, 64, 128),
    "low_rank": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "linear": (),
    "random_features": (8, 16, 32, 64, 128, 256, 512, 1024, 2048),
    "lsh": (1, 2, 4, 8, 16, 32, 64),
}
COSTS = {
    "window": "O(n·w·d)",
    "bigbird": "O(n·(w + g + r)·d)",
    "strided": "O(n·√n·d), s = √n",
    "dilated": "O(n·w·d)",
    "blocks": "O(n·b·d)",
    "low_rank": "O(n·r·d)",
    "linear": "O(n·d²)",
    "random_features": "O(n·m·d)",
    "lsh": "O(n·log n·d)",
}
SHARES = (1.0, 0.5, 0.25)  # of the head's scores
SEEDS, TIMED, ROUNDS = 5, 1024, 4
RULES = ("window", "bigbird", "strided", "dilated", "blocks", "full", "empty")


class Where(NamedTuple):
    """A head of MiniLM and its sentence; layer and head from 0."""

    text: str
    layer: int
    head: int


class Asked(NamedTuple):
    """A way, its number, on which text, how strong the scores are, and the seed of what is drawn at random."""

    text: str
    layer: int
    head: int
    kind: str
    number: int
    share: float
    seed: int


class Made(NamedTuple):
    """What a way makes of a head, as arrays."""

    labels: tuple[str, ...]
    exact: np.ndarray
    weights: np.ndarray
    allowed: np.ndarray
    error: float
    path: int | None


@partial(door, most=16)  # up to five megabytes each
def _tiles(text: str, layer: int, head: int, rows: int, columns: int) -> "HeadTiles":
    from attention_core.labs.flash import head_tiles

    return compute.run(head_tiles, MODEL, text, LIMIT, layer, head, (rows, columns))


@partial(door, most=64)
def _made(text: str, layer: int, head: int, kind: str, number: int, share: float, seed: int) -> Made:
    def variant() -> Made:
        from attention_core.labs.patterns import longest_path
        from attention_core.labs.variants import variant

        seen, given = _given(text, layer, head, share)
        found = variant(kind, *given, number, seed)
        arrays = (of.numpy() for of in (found.exact, found.weights, found.allowed))
        return Made(tuple(seen.labels()[0]), *arrays, found.error, longest_path(found.allowed))

    return compute.run(variant)


@door
def _error(text: str, layer: int, head: int, kind: str, number: int, share: float) -> float:
    """Return the error, where something is drawn at random its root mean square over several seeds."""

    def variants() -> float:
        from attention_core.labs.variants import variant

        _, given = _given(text, layer, head, share)
        seeds = range(1, SEEDS + 1) if kind in (*RANDOM, "bigbird") else (1,)
        return math.sqrt(sum(variant(kind, *given, number, seed).error ** 2 for seed in seeds) / len(seeds))

    return compute.run(variants)


def _given(text: str, layer: int, head: int, share: float) -> tuple:
    seen = compute._seen(MODEL, text, LIMIT)
    own = seen.layer(layer)
    given = (of[head].float().cpu() for of in (own.query, own.key, own.value))
    return seen, (*given, share * own.query.shape[-1] ** -0.5)


@door
def _seconds(kind: str, number: int) -> tuple[float, float]:
    from attention_core.labs.variants import seconds

    return compute.run(seconds, kind, TIMED, 64, number)


@door
def _reached(bits: str, text: str, layer: int, head: int) -> "Painted":
    from attention_core.labs.patterns import painted

    return compute.run(painted, MODEL, text, LIMIT, layer, head, bits)


# Tiles


def head_controls(text: str) -> Where:
    """Ask for a head of MiniLM."""
    reading(MODEL, text)  # what is wrong with the text is said first
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        layer = link.restore("var_layer", 1, link.whole(1, 6))
        st.slider(t("variants.layer"), 1, 6, key="var_layer", width=200)
        head = link.restore("var_head", 1, link.whole(1, 12))
        st.slider(t("variants.head"), 1, 12, key="var_head", width=240)
    return Where(text, layer - 1, head - 1)


def flash(where: Where) -> tuple[int, int]:
    """Show the sentence's attention tile by tile; returns the tile's size."""
    labels = reading(MODEL, where.text).labels
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        rows = link.restore("flash_rows", 4, link.one_of(*SIDES))
        st.select_slider(t("variants.rows"), SIDES, key="flash_rows", width=200)
        columns = link.restore("flash_columns", 4, link.one_of(*SIDES))
        st.select_slider(t("variants.columns"), SIDES, key="flash_columns", width=200)
    if len(labels) > MOST_TILED:
        note("variants.flash_long", tokens=len(labels), most=MOST_TILED)
    else:
        found = _tiles(*where, rows, columns)
        states = found.tiles
        meta = {"tokens": found.labels, "rows": states.rows, "columns": states.columns, "words": words("flash_tiles")}
        arrays = {"scores": found.scores, "maximum": states.maximum, "total": states.total}
        arrays = {name: of.numpy() for name, of in arrays.items()} | {"context": states.context[:, :, :3].numpy()}
        flash_tiles(meta, arrays, key="flash")
        say("variants.flash_same", difference=f"{found.difference:.1e}")
    _memory()
    return rows, columns


def _memory() -> None:
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        length = link.restore("flash_n", 4096, link.one_of(*(2**n for n in range(0, 17))))
        st.select_slider(t("variants.length"), [2**n for n in range(0, 17)], key="flash_n", width=280)
        fast = link.restore("flash_fast", 2**15, link.one_of(*FAST))
        st.select_slider(
            t("variants.fast"), FAST, key="flash_fast", width=280, format_func=lambda m: f"{4 * m // 1024 or 0.5} KiB"
        )
    found = _traffic(length, fast)
    if found is None:
        note("variants.too_small")
        return
    numbers = {"n": f"{length:,}", "rows": found.rows, "columns": found.columns}
    numbers |= {name: _mebi(4 * getattr(found, name)) for name in ("dense", "tiles")}
    say("variants.traffic", times=f"{found.dense / found.tiles:.2g}", **numbers)


def _traffic(length: int, fast: int) -> "Traffic | None":
    from attention_core.labs.flash import traffic

    try:
        return traffic(length, 64, fast)
    except ValueError:
        return None


# Patterns and approximations


def way_controls(where: Where) -> Asked:
    """Ask for a way and its number."""
    kind = pick("variants.variant", WAYS, "window", name=_name)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        number = 1
        if choices := NUMBERS[kind]:
            key = f"var_{kind}"
            number = link.restore(key, choices[len(choices) // 2], link.one_of(*choices))
            st.select_slider(t(f"variants.number_{kind}"), choices, key=key, width=300)
        which = pick("variants.var_text", ("chapter", "sentence"), "chapter")
        share = pick("variants.var_share", SHARES, 1.0, name=lambda s: f"× {s:g}")
        seed = 1
        if kind in (*RANDOM, "bigbird"):
            seed = link.restore("var_seed", 1, link.whole(1, 9999))
            st.button(t("variants.redraw"), key="var_again", on_click=redraw, args=("var_seed",))
    text = chapter() if which == "chapter" else where.text
    reading(MODEL, text)
    return Asked(text, where.layer, where.head, kind, number, share, seed)


def way(asked: Asked) -> None:
    """Draw what a way makes of the head beside what it is, its error over its number, its cost and its time."""
    from attention_core.views import view_weights

    say(f"variants.what_{asked.kind}", **({"rounds": ROUNDS} if asked.kind == "lsh" else {}))
    found = _made(*asked)
    tokens = len(found.labels)
    pattern = asked.kind in PATTERNS
    for column, name, weights, allowed in zip(
        st.columns(2, gap="large"),
        ("exact", "made"),
        (found.exact, found.weights),
        (np.ones_like(found.allowed), found.allowed),
        strict=True,
    ):
        with column:
            heading(f"variants.{name}")
            view = view_weights(found.labels, found.labels, np.clip(weights, 0, None), allowed=allowed)
            heat(view, "weights", view=f"variants-{name}", log=True, several=True)
    cells = int(found.allowed.sum())
    say("variants.error", error=f"{found.error:.3f}")
    if pattern or asked.kind == "lsh":
        say("variants.cells", cells=f"{cells:,}", all=f"{tokens**2:,}", share=f"{cells / tokens**2:.0%}")
        note("variants.path" if found.path else "variants.no_path", path=found.path)
    if asked.kind == "low_rank" and asked.number >= tokens:
        note("variants.full_rank", rank=asked.number, tokens=tokens)
    left, right = st.columns([3, 2], gap="large")
    with left:
        if NUMBERS[asked.kind]:
            heading("variants.curve")
            chart(_error_chart(asked, look()), "variants-error")
    with right:
        heading("variants.price")
        st.markdown(COSTS[asked.kind])
        took, dense = _seconds(asked.kind, max(1, min(asked.number, TIMED)))
        numbers = {"n": f"{TIMED:,}", "took": f"{1000 * took:.2f}", "dense": f"{1000 * dense:.2f}"}
        say("variants.time", times=f"{dense / took:.2g}", **numbers)
        note(f"variants.{'gathered' if pattern else 'sorted' if asked.kind == 'lsh' else 'multiplied'}")


# A pattern of one's own


def own(where: Where) -> str:
    """Let the reader paint a pattern, and show how far news gets in 1, 2, 3 layers."""
    tokens = reading(MODEL, where.text).labels[:MOST_PAINTED]
    size, state = len(tokens), st.session_state
    usual = _rule("window", size)
    bits = _unpacked(link.restore("paint", _packed(usual), _board(size)), size)
    if "1" not in bits:
        note("variants.empty_pattern")
        bits = state.get("_painted", usual)
        bits = bits if len(bits) == size * size else usual
        link.keep("paint", _packed(bits))
    state["_painted"] = bits
    if len(reading(MODEL, where.text).labels) > size:
        note("variants.own_long", most=MOST_PAINTED)
    with st.container(horizontal=True, gap="small"):
        for rule in RULES:
            st.button(_name(rule), key=f"rule_{rule}", on_click=_use, args=(rule, size))
    found = _reached(bits, *where)
    meta = {"tokens": tokens, "words": words("pattern_board")}
    pattern_board(meta, {"allowed": found.allowed, "reach": found.reach}, key="board", on_painted=_painted)
    shares = {f"after{n}": f"{((found.reach > 0) & (found.reach <= n)).mean():.0%}" for n in (1, 2, 3)}
    say("variants.own_reach", **shares)
    say("variants.own_error", cells=int(found.allowed.sum()), all=size * size, error=f"{found.error:.3f}")
    note("variants.path" if found.path is not None else "variants.no_path", path=found.path)
    return bits


# The numbers


def tables(where: Where, size: tuple[int, int], asked: Asked, bits: str) -> Mapping[str, Table]:
    """Return every number behind the pictures."""
    parts = {}
    if len(reading(MODEL, where.text).labels) <= MOST_TILED:
        found = _tiles(*where, *size)
        steps = [f"{t('variants.tile')} {n + 1}" for n in range(len(found.tiles.rows))]
        for name in ("maximum", "total"):
            parts[t(f"flash_tiles.{name}")] = Table(steps, found.labels, getattr(found.tiles, name).numpy())
    made = _made(*asked)
    parts[t("variants.exact")] = Table(made.labels, made.labels, made.exact)
    parts[t("variants.made")] = Table(made.labels, made.labels, made.weights)
    if choices := NUMBERS[asked.kind]:
        errors = np.array([[_error(*asked[:4], number, asked.share)] for number in choices])
        parts[t("variants.curve")] = Table([str(n) for n in choices], [_name(asked.kind)], errors)
    reach = _reached(bits, *where).reach
    labels = reading(MODEL, where.text).labels[: len(reach)]
    parts[t("variants.own_title")] = Table(labels, labels, reach)
    return parts


@st.cache_resource(max_entries=128, show_spinner=False)
def _error_chart(asked: Asked, shown: Look) -> object:
    from figures.curves import Curve, log_curves

    choices = NUMBERS[asked.kind]
    errors = [_error(*asked[:4], number, asked.share) for number in choices]
    x = [max(number, 0.5) for number in choices]
    lines = [Curve(_name(asked.kind), x, errors, 0)]
    if asked.kind == "random_features":
        law = [errors[-1] * math.sqrt(choices[-1] / number) for number in choices]
        lines.append(Curve(t("variants.law"), x, law, 5, "dot"))
    marks = [float(max(asked.number, 0.5))]
    axes = {"xaxis": t(f"variants.number_{asked.kind}"), "yaxis": t("variants.error_axis")}
    return log_curves(lines, marks=marks, up=(0.01, 3.0), ticks=(), height=320, **axes, **shown.style)


# Small things


def chapter() -> str:
    """Return the beginning of the text that comes with Gaze."""
    return sample()[:CHAPTER]


def _name(kind: str) -> str:
    return t(f"variants.{kind}")


def _mebi(size: int) -> str:
    return f"{size / 2**20:,.3g} MiB"


def _rule(rule: str, size: int) -> str:
    """Return a rule's cells, row by row."""
    if rule in ("full", "empty"):
        return ("1" if rule == "full" else "0") * size**2
    from attention_core.labs.patterns import pattern

    allowed = compute.run(
        pattern, rule, size, {"window": 1, "bigbird": 1, "strided": 3, "dilated": 1, "blocks": 3}[rule]
    )
    return "".join("1" if cell else "0" for cell in allowed.flatten().tolist())


def _packed(bits: str) -> str:
    return f"{int('1' + bits, 2):x}"


def _unpacked(packed: str, size: int) -> str:
    return f"{int(packed, 16):b}"[1:].zfill(size**2)


def _board(size: int):  # noqa: ANN202 - a parser, as link's own
    def parse(said: str) -> str:
        if len(said) > 80 or len(f"{int(said, 16):b}") != size**2 + 1:
            raise ValueError(said)
        return said

    return parse


def _use(rule: str, size: int) -> None:
    st.session_state["paint"] = _packed(_rule(rule, size))


def _painted() -> None:
    st.session_state["paint"] = _packed(st.session_state["board"].painted)
