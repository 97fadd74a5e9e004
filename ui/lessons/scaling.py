"""Why √dₖ: the controls, cached doors and charts of the page; a random world, a real head, a race of two trainings."""

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import streamlit as st

from attention_core import compute
from ui import controls, link
from ui.components.loss_race import loss_race
from ui.compute import LIMIT, door, head_view, reading
from ui.lesson import Look, Table, chart, look
from ui.pick import pick
from ui.show import focus
from ui.text import heading, note, plain, say, t, words

if TYPE_CHECKING:
    from attention_core.labs.scaling import Curves, Histogram, Learned, RealHead, RealRow, Row

SIZES = tuple(2**n for n in range(13))
TEMPERATURES = tuple(2 ** (n / 2) for n in range(-4, 13))  # with √dₖ of every size among them
TIMES = tuple(2 ** (n / 2) for n in range(-6, 11))
DRAWS, SEED, TRAINING_SEED, MOST_SEED = 4000, 29, 1, 9999
HAND = (16.0, 8.0, 0.0, -8.0)
FEWEST, MOST, LARGEST = 2, 16, 1e6
TRAINING_SIZES, RATES = (8, 64, 512), (1, 4, 16)
STEPS, PIECE, TICK = 300, 15, 0.2  # seconds
SEEDS = 3
RACE = "_race"  # whether the trainings run


class World(NamedTuple):
    """What is drawn at random, or made up by hand.

    Attributes:
        hand: The scores somebody made up; empty for random ones.
        size: dₖ.
        keys: How many keys a query has.
        temperature: Scores are divided by it.
        seed: Of the draws.
    """

    hand: tuple[float, ...]
    size: int
    keys: int
    temperature: float
    seed: int


class Head(NamedTuple):
    """A query of a real head, counted from 0, and what happens to its factor."""

    model: str
    text: str
    layer: int
    head: int
    query: int
    kind: str
    times: float
    temperature: float

    @property
    def row(self) -> "RealRow":
        """The query's row."""
        return _real_row(*self)

    @property
    def every(self) -> "RealHead":
        """All rows."""
        return _real_head(*self[:4], *self[5:])


@door
def _curves(keys: int, seed: int, temperature: float) -> "Curves":
    def job() -> "Curves":
        from attention_core.labs import scaling as lab

        return lab.curves(keys, seed, temperature)

    return compute.run(job)


@door
def _histogram(size: int, keys: int, seed: int) -> "Histogram":
    def job() -> "Histogram":
        from attention_core.labs import scaling as lab

        return lab.histogram(size, keys, seed)

    return compute.run(job)


@door
def _row(hand: tuple[float, ...], size: int, keys: int, temperature: float, seed: int) -> "Row":
    def job() -> "Row":
        from attention_core.labs import scaling as lab

        return lab.hand_row(hand, size, temperature) if hand else lab.random_row(size, keys, seed, temperature)

    return compute.run(job)


@door
def _real_row(
    model: str, text: str, layer: int, head: int, query: int, kind: str, times: float, heat: float
) -> "RealRow":
    def job() -> "RealRow":
        from attention_core.labs import scaling as lab

        return lab.real_row(model, text, LIMIT, layer, head, query, kind, times, heat)

    return compute.run(job)


@door
def _real_head(model: str, text: str, layer: int, head: int, kind: str, times: float, heat: float) -> "RealHead":
    def job() -> "RealHead":
        from attention_core.labs import scaling as lab

        return lab.real_head(model, text, LIMIT, layer, head, kind, times, heat)

    return compute.run(job)


@door
def _learned(size: int, rate: float, seed: int, steps: int) -> "Learned":
    def job() -> "Learned":
        from attention_core.labs import scaling as lab

        return lab.learn(size, rate, seed, steps)

    done = compute.run(job)
    while done.steps < steps:  # a piece at a time, so that nobody waits for long
        done = compute.run(job)
    return done


# The random world


def world_controls() -> World:
    """Ask for dₖ, temperature, and random scores or scores made up by hand."""
    size = link.restore("dk", 64, link.one_of(*SIZES))
    st.select_slider(t("scaling.dk"), SIZES, key="dk")
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        kind = pick("scaling.dk_world", ("random", "hand"), "random", on_change=_by_hand)
        heat = _power("dk_temperature", "temperature", TEMPERATURES, "1", 220)
        if kind == "hand":
            hand = _hand_scores()
        else:
            keys = link.restore("dk_keys", 8, link.whole(FEWEST, MOST))
            st.slider(t("scaling.keys"), FEWEST, MOST, key="dk_keys", width=180)
        seed = link.restore("dk_seed", SEED, link.whole(1, MOST_SEED))
        st.number_input(t("scaling.seed"), 1, MOST_SEED, step=1, key="dk_seed", width=130)
    return World(hand, size, len(hand), heat, seed) if kind == "hand" else World((), size, keys, heat, seed)


def spread(world: World) -> None:
    """Draw how raw and scaled scores are spread."""
    heading("scaling.spread")
    chart(_spread_chart(world, look()), "dk-spread")


def one_row(world: World) -> None:
    """Draw the softmax of one row, without and with the factor side by side."""
    heading("scaling.row")
    chart(_row_chart(world, look()), "dk-row")


def summary(world: World) -> None:
    """Say in a sentence what the two pictures show, and the measures of the row."""
    found, row = _curves(world.keys, world.seed, world.temperature), _asked(world)
    at = SIZES.index(world.size)
    say(
        "scaling.summary",
        size=world.size,
        raw=f"{found.spread[0, at]:.2f}",
        root=f"{math.sqrt(world.size):.2f}",
        scaled=f"{found.spread[1, at]:.2f}",
        without=f"{found.largest[0, at]:.2f}",
        with_=f"{found.largest[1, at]:.2f}",
    )
    note(
        "scaling.measures",
        largest=_two(row.largest),
        entropy=_two(row.entropy),
        most=f"{math.log(world.keys):.3f}",
        gradient=_two(row.gradient),
    )


def curves(world: World) -> None:
    """Draw the largest weight, the entropy and the gradient over dₖ."""
    for column, name in zip(st.columns(3, gap="medium"), ("largest", "entropy", "gradient"), strict=True):
        with column:
            heading(f"scaling.curve_{name}")
            chart(_curve_chart(world, name, look()), f"dk-{name}")
    note("scaling.drawn", draws=DRAWS, keys=world.keys)


# The real head


def head_controls() -> Head:
    """Ask for a head of a real model, a query, and what happens to the factor."""
    text = controls.sentence_box()
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        model = controls.model_choice()
        layer = controls.layer_choice(model, text)
    controls.token_count(model, text)
    head = controls.head_choice(model, text, layer)
    labels = reading(model, text).labels
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        kind = pick("scaling.real_factor", ("on", "off", "other"), "off")
        times = _power("real_times", "times", TIMES, "2", 220) if kind == "other" else 1.0
        heat = _power("real_temperature", "real_temperature", TEMPERATURES, "1", 290)
        first = focus(head_view(model, text, layer, head, "token", "shown"))[0] + 1
        query = link.restore("real_row", first, link.whole(1, len(labels))) - 1
        if len(labels) > 1:
            st.slider(
                t("scaling.query", word=plain(labels[query].strip("·"))), 1, len(labels), key="real_row", width=240
            )
    return Head(model, text, layer, head, query, kind, times, heat)


def head_row(head: Head) -> None:
    """Draw the chosen query's weights, with the changed factor and with the model's own."""
    row, word = head.row, row_word(head)
    st.markdown(f"**{t('scaling.real_weights', word=plain(word))}**")
    chart(_real_row_chart(head, look()), "real-weights")
    key = int(row.weights[1].argmax())
    say(
        "scaling.real_summary",
        query=word,
        key=row.labels[key].strip("·"),
        own=f"{row.weights[1, key]:.3f}",
        changed=f"{row.weights[0, key]:.3f}",
    )


def head_rows(head: Head) -> None:
    """Draw entropy and gradient of every row."""
    _ = head.row, head.every  # what is wrong with a model is said here, not in a chart that is kept
    for name in ("entropy", "gradient"):
        heading(f"scaling.real_{name}")
        chart(_real_rows_chart(head, name, look()), f"real-{name}")


def row_word(head: Head) -> str:
    """Return the chosen query as a word."""
    return head.every.labels[head.query].strip("·")


# Watch it learn


def race() -> "Learned":
    """Train two layers before the reader's eyes, without and with the factor; return how far they have come."""
    state = st.session_state
    say("scaling.learn_what")
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        size = pick("scaling.train_dk", TRAINING_SIZES, 512, name=str, on_change=_reset)
        rate = pick("scaling.train_rate", RATES, 4, name=str, on_change=_reset)
        seed = link.restore("train_seed", TRAINING_SEED, link.whole(1, MOST_SEED))
        st.number_input(t("scaling.train_seed"), 1, MOST_SEED, step=1, key="train_seed", width=150, on_change=_reset)
        steps = link.restore("train_steps", 0, link.whole(0, STEPS))
        running = state.get(RACE, False)
        st.button(t("scaling.start"), key="train_start", type="primary", on_click=_start, disabled=running)
        st.button(t("scaling.stop"), key="train_stop", on_click=_stop, disabled=not running)
    st.fragment(_run, run_every=TICK if running else None)(size, rate, seed)
    return _learned(size, float(rate), seed, steps)


def _run(size: int, rate: int, seed: int) -> None:
    """Draw the race; while it runs, each tick takes it a piece further."""
    state = st.session_state
    running = state.get(RACE, False)
    if running:
        state["train_steps"] = min(state["train_steps"] + PIECE, STEPS)
    done = _learned(size, float(rate), seed, state["train_steps"])
    meta = {
        "names": _names(),
        "seeds": [seed + n for n in range(SEEDS)],
        "total": STEPS,
        "top": 2.0,
        "words": words("loss_race"),
    }
    loss_race(meta, {"losses": done.losses}, key="train-losses")
    say(
        "scaling.learn_state",
        steps=done.steps,
        total=STEPS,
        without=f"{done.losses[0, :, -1].mean():.2f}",
        with_=f"{done.losses[1, :, -1].mean():.2f}",
        right_without=f"{done.right[0]:.0%}",
        right_with=f"{done.right[1]:.0%}",
    )
    note(
        "scaling.learn_start",
        without=f"{done.gradient[0]:.3f}",
        with_=f"{done.gradient[1]:.3f}",
        dead_without=f"{done.dead[0]:.0%}",
        dead_with=f"{done.dead[1]:.0%}",
    )
    if running and done.steps >= STEPS:
        state[RACE] = False
        st.rerun()


def _start() -> None:
    state = st.session_state
    if state.get("train_steps", 0) >= STEPS:
        state["train_steps"] = 0
    state[RACE] = True


def _stop() -> None:
    st.session_state[RACE] = False


def _reset() -> None:
    _stop()
    link.forget("train_steps")


# The numbers


def tables(world: World, head: Head, done: "Learned") -> dict[str, Table]:
    """Return every number behind the pictures."""
    found, row = _curves(world.keys, world.seed, world.temperature), _asked(world)
    names = _names()
    pairs = [f"{t(f'scaling.{part}')} · {name}" for part in ("score", "weight") for name in names]
    measures = [
        f"{t(f'scaling.short_{part}')} · {name}" for part in ("largest", "entropy", "gradient") for name in names
    ]
    own = _factor_names(head)
    losses = np.concatenate(list(done.losses)).T
    return {
        t("scaling.table_row"): Table(
            [f"k{n + 1}" for n in range(world.keys)], pairs, np.concatenate([row.scores, row.weights]).T
        ),
        t("scaling.table_curves"): Table(
            [f"dₖ = {size}" for size in SIZES],
            measures,
            np.concatenate([found.largest, found.entropy, found.gradient]).T,
        ),
        t("scaling.table_real"): Table(
            head.row.labels,
            [t("scaling.raw"), *(f"{t(f'scaling.{part}')} · {name}" for part in ("score", "weight") for name in own)],
            np.concatenate([head.row.raw[None], head.row.scores, head.row.weights]).T,
        ),
        t("scaling.table_rows"): Table(
            head.every.labels,
            [f"{t(f'scaling.short_{part}')} · {name}" for part in ("entropy", "gradient") for name in own],
            np.concatenate([head.every.entropy, head.every.gradient]).T,
        ),
        t("scaling.table_losses"): Table(
            [str(step) for step in range(len(losses))],
            [
                f"{name} · {t('scaling.seed_word')} {st.session_state['train_seed'] + n}"
                for name in names
                for n in range(SEEDS)
            ],
            losses,
        ),
    }


# The charts, kept as they are: building one takes longer than computing what it shows


@st.cache_resource(max_entries=128, show_spinner=False)
def _spread_chart(world: World, shown: Look) -> object:
    from figures.scaling import score_spread

    found, row = _histogram(world.size, world.keys, world.seed), _asked(world)
    names = t("scaling.raw"), t("scaling.scaled")
    return score_spread(found.edges, found.shares, row.scores, names, spread=math.sqrt(world.size), **shown.style)


@st.cache_resource(max_entries=128, show_spinner=False)
def _row_chart(world: World, shown: Look) -> object:
    from figures.scaling import weight_pairs

    row = _asked(world)
    cool = {"reference": row.cool, "reference_name": t("scaling.cool")} if world.temperature != 1 else {}
    return weight_pairs([f"k{n + 1}" for n in range(world.keys)], row.weights, _names(), **cool, **shown.style)


@st.cache_resource(max_entries=256, show_spinner=False)
def _curve_chart(world: World, name: str, shown: Look) -> object:
    from figures.scaling import size_curves

    values = getattr(_curves(world.keys, world.seed, world.temperature), name)
    most = math.log(world.keys)
    top, bound = {"largest": (1.05, None), "entropy": (1.12 * most, most), "gradient": (0.56, None)}[name]
    return size_curves(SIZES, values, world.size, _names(), top=top, bound=bound, **shown.style)


@st.cache_resource(max_entries=128, show_spinner=False)
def _real_row_chart(head: Head, shown: Look) -> object:
    from figures.scaling import weight_pairs

    return weight_pairs(head.row.labels, head.row.weights, _factor_names(head), height=330, **shown.style)


@st.cache_resource(max_entries=256, show_spinner=False)
def _real_rows_chart(head: Head, name: str, shown: Look) -> object:
    from figures.scaling import weight_pairs

    every = head.every
    top = math.log(max(len(every.labels), 2)) if name == "entropy" else 0.5
    values, names = getattr(every, name), _factor_names(head)
    return weight_pairs(
        every.labels, values, names, top=top, chosen=head.query, legend=False, height=190, **shown.style
    )


# Small things


def _asked(world: World) -> "Row":
    return _row(world.hand, world.size, world.keys, world.temperature, world.seed)


def _hand_scores() -> tuple[float, ...]:
    """Ask for scores; what is no list of numbers gets a note, and the last that was one is shown on."""
    text = link.restore("dk_scores", _listed(HAND), str)
    st.text_input(t("scaling.scores"), key="dk_scores", live="300ms", width=200, help=t("scaling.scores_help"))
    try:
        apart = r"[\s;]+|,(?=\s)" if re.search(r"[\s;]", text.strip()) else ","  # 1,5 2,5 are two numbers, 1,5,2 three
        parts = [part for part in re.split(apart, text.strip()) if part]
        found = tuple(float(part.replace("−", "-").replace(",", ".")) for part in parts)
        if not FEWEST <= len(found) <= MOST or not all(abs(x) <= LARGEST for x in found):
            raise ValueError(text)
    except ValueError:
        link.tell("scaling.no_scores", fewest=FEWEST, most=MOST, largest=f"{LARGEST:,.0f}")
        found = st.session_state.get("_hand", HAND)
        link.keep("dk_scores", _listed(found))
        return found
    st.session_state["_hand"] = found
    return found


def _listed(scores: tuple[float, ...]) -> str:
    return " ".join(f"{x:g}" for x in scores)


def _by_hand() -> None:
    """Whoever switches to the example by hand gets it as it stands in the book."""
    if st.session_state["dk_world"] == "hand":
        link.forget("dk", "dk_temperature", "dk_scores")


def _power(key: str, name: str, choices: Iterable[float], default: str, width: int) -> float:
    """Ask for a power of √2, written as people read it; so it stands in the link, too."""
    shorts = [_short(x) for x in choices]
    chosen = link.restore(key, default, link.one_of(*shorts))
    about = t(f"scaling.{name}_help") if f"{name}_help" in words("scaling") else None
    st.select_slider(t(f"scaling.{name}"), shorts, key=key, width=width, help=about)
    return _exact(chosen)


def _short(number: float) -> str:
    """Write a power of √2 as people read it: 8, 5.66, 0.25."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _exact(short: str) -> float:
    """Return the power of √2 that was meant."""
    return 2 ** (round(2 * math.log2(float(short))) / 2)


def _names() -> tuple[str, str]:
    return t("scaling.without"), t("scaling.with")


def _factor_names(head: Head) -> tuple[str, str]:
    changed, own = (f"{factor:.4g}" for factor in head.row.factors)
    return t("scaling.changed", factor=changed), t("scaling.own", factor=own)


def _two(pair: np.ndarray) -> str:
    return f"{pair[0]:.3f} → {pair[1]:.3f}"
