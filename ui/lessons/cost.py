"""Cost: the controls, cached doors and charts of the page; the table, the walks, the layers that are timed."""

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import streamlit as st

from attention_core import compute
from ui import link
from ui.components.news_walk import news_walk
from ui.compute import door
from ui.lesson import Look, Table, chart, legend, look
from ui.pick import pick
from ui.text import heading, note, say, t, words

if TYPE_CHECKING:
    from attention_core.labs.cost import Costs
    from attention_core.labs.timing import Times, Timing

MOST = 100_000  # words
WIDTHS = tuple(2**n for n in range(3, 13))
KERNELS = (2, 3, 4, 5, 7, 9)
REACHES = tuple(2**n for n in range(1, 10))
OVER = tuple(sorted({round(10 ** (n / 8)) for n in range(41)}))  # the lengths of the curves, 1 to 100,000
KINDS = ("attention", "recurrent", "convolution", "restricted")
GROWS = {  # the paper's table
    "operations": ("O(n²·d)", "O(n·d²)", "O(k·n·d²)", "O(r·n·d)"),
    "sequential": ("O(1)", "O(n)", "O(1)", "O(1)"),
    "path": ("O(1)", "O(n)", "O(logₖ n)", "O(n/r)"),
}
WORDS = 32  # of a sentence whose walks are drawn
TIMED_WIDTHS, LONGEST = (32, 64, 128), (1024, 2048, 4096, 8192)
RUN, TICK, PIECE = "_cost_run", 0.4, 0.3
MEBI = 2**20


class Sizes(NamedTuple):
    """n, d, k and r of the table."""

    length: int
    width: int
    kernel: int
    reach: int


class Asked(NamedTuple):
    """What is timed: the layers' width, the convolution's kernel, up to which length, and whether backward too."""

    width: int
    kernel: int
    longest: int
    backward: bool


@door
def _costs(lengths: tuple[int, ...], width: int, kernel: int, reach: int) -> "Costs":
    from attention_core.labs.cost import costs

    return costs(lengths, width, kernel, reach)


@door
def _memory() -> np.ndarray:
    from attention_core.labs.cost import MEMORY_LENGTHS, memory

    return np.concatenate([compute.run(memory, (n,)) for n in MEMORY_LENGTHS], axis=1)


# The table


def size_controls() -> Sizes:
    """Ask for n, d, k and r."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        length = link.restore("cost_n", 1000, link.whole(1, MOST))
        st.number_input(t("cost.n"), 1, MOST, step=1, key="cost_n", width=160, help=t("cost.n_help", most=f"{MOST:,}"))
        st.button("n ÷ 2", key="cost_half", on_click=_scale, args=(0.5,), disabled=length < 2)
        st.button("2 × n", key="cost_double", on_click=_scale, args=(2,), disabled=2 * length > MOST)
        width = link.restore("cost_d", 512, link.one_of(*WIDTHS))
        st.select_slider(t("cost.d"), WIDTHS, key="cost_d", width=170)
        kernel = link.restore("cost_k", 3, link.one_of(*KERNELS))
        st.select_slider(t("cost.k"), KERNELS, key="cost_k", width=110)
        reach = link.restore("cost_r", 4, link.one_of(*REACHES))
        st.select_slider(t("cost.r"), REACHES, key="cost_r", width=130)
    return Sizes(length, width, kernel, reach)


def table(sizes: Sizes) -> None:
    """Write the paper's table with the numbers in it, and compare attention with the recurrent layer."""
    found = _costs((sizes.length,), *sizes[1:])
    rows = ["".join(f"<th>{t(f'cost.{part}')}</th>" for part in ("layer", *GROWS))]
    for n, kind in enumerate(KINDS):
        cells = (f"<td><i>{grows[n]}</i> {getattr(found, part)[n, 0]:,.0f}</td>" for part, grows in GROWS.items())
        rows.append(f"<th>{t(f'cost.{kind}')}</th>{''.join(cells)}")
    st.html(f'<table class="gaze-table">{"".join(f"<tr>{row}</tr>" for row in rows)}</table>')
    share = sizes.length / sizes.width
    which = "equal" if share == 1 else "more" if share > 1 else "less"
    say(f"cost.compare_{which}", n=f"{sizes.length:,}", d=f"{sizes.width:,}", times=_brief(max(share, 1 / share)))
    if sizes.length == 1:
        note("cost.one_word")
    elif sizes.reach >= sizes.length:
        note("cost.reaches_all", r=sizes.reach, n=f"{sizes.length:,}")


def square(sizes: Sizes) -> None:
    """Draw the square of all pairs, and that of twice the words around it."""
    n = sizes.length
    label = t("cost.square_alt")
    st.html(f'<div class="gaze-square" role="img" aria-label="{label}">{2 * n:,}²<div>{n:,}²</div></div>')
    say("cost.square", n=f"{n:,}", pairs=f"{n * n:,}", twice=f"{2 * n:,}", more=f"{4 * n * n:,}")


def curves(sizes: Sizes) -> None:
    """Draw operations, sequential steps and path over n."""
    legend([t(f"cost.{kind}") for kind in KINDS])
    for column, part in zip(st.columns(3, gap="medium"), GROWS, strict=True):
        with column:
            heading(f"cost.{part}")
            chart(_cost_chart(sizes, part, look()), f"cost-{part}")
    note("cost.drawn", d=f"{sizes.width:,}", k=sizes.kernel, r=sizes.reach)


# The walks


def walks(text: str, sizes: Sizes) -> None:
    """Show how news goes from one word of the learner's sentence to another."""
    from attention_core.labs.cost import tower, walk

    typed = text.split()
    tokens = typed[:WORDS]
    if len(typed) > WORDS:
        note("cost.walk_cut", most=WORDS, left=len(typed) - WORDS)
    last = len(tokens)
    if last == 1:
        note("cost.one_word")
        return
    ends = link.restore("walk", (1, last), link.span(1, last))
    st.slider(t("cost.walk"), 1, last, key="walk", width=420)
    first, end = ends[0] - 1, ends[1] - 1
    lanes = []
    for kind in KINDS:
        places = walk(kind, first, end, last, sizes.kernel, sizes.reach)
        layers = tower(last, sizes.kernel) if kind == "convolution" else 1
        said = t(f"cost.walked_{kind}", steps=len(places) - 1, k=sizes.kernel, r=sizes.reach)
        lanes.append({"kind": kind, "name": t(f"cost.{kind}"), "said": said, "places": places, "layers": layers})
    meta = {"tokens": tokens, "ends": [first, end], "lanes": lanes, "words": words("news_walk")}
    news_walk(meta, key="walks", on_ends=_walk)
    note("cost.walk_note", k=sizes.kernel, layers=tower(last, sizes.kernel), r=sizes.reach, side=sizes.reach // 2)


# The times


def time_controls(sizes: Sizes) -> Asked:
    """Ask which layers are timed."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        width = pick("cost.time_d", TIMED_WIDTHS, 64, name=str, on_change=_stop)
        longest = pick("cost.time_n", LONGEST, 8192, name=lambda n: f"{n:,}", on_change=_stop)
        ways = pick("cost.time_way", ("forward", "both"), "forward", on_change=_stop)
    return Asked(width, sizes.kernel, longest, ways == "both")


def times(asked: Asked, sizes: Sizes) -> None:
    """Time three real layers before the reader's eyes."""
    running, share = st.session_state.get(RUN, False), _share(_times(asked))
    with st.container(horizontal=True, gap="small"):
        if running:
            st.button(t("cost.stop"), key="cost_stop", on_click=_stop)
        elif share < 1:
            label = t("cost.go_on" if share else "cost.start")
            st.button(label, key="cost_start", type="primary", on_click=_start)
        else:
            st.button(t("cost.again"), key="cost_again", on_click=_again, args=asked)
    st.fragment(_advance, run_every=TICK if running else None)(asked, sizes)


def _advance(asked: Asked, sizes: Sizes) -> None:
    """Draw what was measured; while it runs, each tick measures more."""
    running, until = st.session_state.get(RUN, False), time.monotonic() + PIECE
    for work in _works(asked):
        while running and time.monotonic() < until and not work.done:
            compute.run(work.step)
    found = _times(asked)
    share = _share(found)
    st.progress(share, t("cost.progress", share=f"{share:.0%}"))
    chart(_time_chart(found), "cost-times")
    st.markdown("\n".join(_slopes(found, asked)))
    longest, took = found["cpu"].lengths[-1], float(found["cpu"].seconds[0, -1])
    if sizes.length > longest and np.isfinite(took):
        factor = (sizes.length / longest) ** 2
        times = {"times": _brief(factor), "took": _seconds(took), "would": _seconds(factor * took)}
        note("cost.beyond", n=f"{sizes.length:,}", longest=f"{longest:,}", **times)
    if running and share >= 1:
        _stop()
        st.rerun()


def _slopes(found: "dict[str, Times]", asked: Asked) -> list[str]:
    """Say how fast each layer's time grows, as far as two lengths were measured, beside what theory says."""
    from attention_core.labs import timing

    lines = [t("cost.slopes")]
    for device, times in found.items():
        for kind, power, seconds in zip(timing.TIMED, timing.POWERS, times.seconds, strict=True):
            there = [n for n, took in zip(times.lengths, seconds, strict=True) if np.isfinite(took)]
            if len(there) < 2:
                continue
            counts = [float(timing.counted(kind, n, asked.width, asked.kernel)) for n in there]
            measured = timing.slope(there, list(map(float, seconds[: len(there)])))
            numbers = {"slope": f"{measured:.2f}", "counted": f"{timing.slope(there, counts):.2f}"}
            lines.append(f"- {t('cost.slope', layer=_layer(kind, device, found), power=power, **numbers)}")
    return lines if len(lines) > 1 else []


def _layer(kind: str, device: str, found: "dict[str, Times]") -> str:
    """Return a layer's name, with the device where there are several."""
    return t(f"cost.timed_{kind}") + (f" · {device}" if len(found) > 1 else "")


def _works(asked: Asked, *, again: bool = False) -> "list[Timing]":
    from attention_core.labs import timing

    more = {"backward": asked.backward, "again": again}
    return compute.run(lambda: [timing.timing(*asked[:3], device=device, **more) for device in timing.devices()])


def _times(asked: Asked) -> "dict[str, Times]":
    """Return what was measured so far, by device."""
    works = _works(asked)
    return compute.run(lambda: {work.device: work.times() for work in works})


def _share(found: "dict[str, Times]") -> float:
    return sum(times.share for times in found.values()) / len(found)


def memory(sizes: Sizes) -> None:
    """Draw the memory that one head needs, and say what the weights at n would take."""
    from attention_core.labs.cost import weight_bytes

    say("cost.memory_intro")
    chart(_memory_chart(look()), "cost-memory")
    n = sizes.length
    say("cost.memory", n=f"{n:,}", one=_bytes(weight_bytes(n)), heads=270, all=_bytes(weight_bytes(n, 270)))


def tables(sizes: Sizes, asked: Asked) -> Mapping[str, Table]:
    """Return every number behind the pictures."""
    from attention_core.labs.cost import MEMORY_LENGTHS, weight_bytes

    found, timed, held = _costs(OVER, *sizes[1:]), _times(asked), _memory()
    names = [t(f"cost.{kind}") for kind in KINDS]
    over = [f"n = {n:,}" for n in OVER]
    parts = {t(f"cost.{part}"): Table(over, names, getattr(found, part).T) for part in GROWS}
    shown = [
        n for n in range(len(timed["cpu"].lengths)) if all(np.isfinite(of.seconds[:, n]).all() for of in timed.values())
    ]
    layers = [_layer(kind, device, timed) for device in timed for kind in KINDS[:3]]
    seconds = np.concatenate([of.seconds[:, shown] for of in timed.values()]).T
    rows = [f"n = {timed['cpu'].lengths[n]:,}" for n in shown]
    parts[t("cost.table_times")] = Table(rows, layers, seconds)
    kinds = [t("cost.memory_dense"), t("cost.memory_fused"), t("cost.memory_weights")]
    square = np.array([weight_bytes(n) for n in MEMORY_LENGTHS], dtype=float)
    parts[t("cost.table_memory")] = Table([f"n = {n:,}" for n in MEMORY_LENGTHS], kinds, np.stack([*held, square]).T)
    return parts


# The charts, kept as they are


@st.cache_resource(max_entries=256, show_spinner=False)
def _cost_chart(sizes: Sizes, part: str, shown: Look) -> object:
    from figures.curves import Curve, log_curves

    values = getattr(_costs(OVER, *sizes[1:]), part)
    lines = [Curve(t(f"cost.{kind}"), OVER, values[n], n) for n, kind in enumerate(KINDS)]
    points = [(float(sizes.width), float(sizes.width) ** 3, "n = d")] if part == "operations" else []
    return log_curves(
        lines, xaxis="n", yaxis="", marks=[float(sizes.length)], points=points, legend=False, height=270, **shown.style
    )


@st.cache_resource(max_entries=8, show_spinner=False)
def _memory_chart(shown: Look) -> object:
    from attention_core.labs.cost import MEMORY_LENGTHS, weight_bytes
    from figures.curves import Curve, log_curves

    held, lengths = _memory() / MEBI, (*MEMORY_LENGTHS, 4096, 8192, 16384)
    lines = [
        Curve(t("cost.memory_dense"), MEMORY_LENGTHS, held[0], 1),
        Curve(t("cost.memory_fused"), MEMORY_LENGTHS, held[1], 0),
        Curve(t("cost.memory_weights"), lengths, [weight_bytes(n) / MEBI for n in lengths], 5, "dot"),
    ]
    return log_curves(lines, xaxis="n", yaxis="MiB", unit=" MiB", ticks=lengths, **shown.style)


def _time_chart(found: "dict[str, Times]") -> object:
    from attention_core.labs import timing
    from figures.curves import Curve, log_curves

    lines = [
        Curve(_layer(kind, device, found), times.lengths, 1000 * times.seconds[n], n, ("solid", "dash")[place])
        for place, (device, times) in enumerate(found.items())
        for n, kind in enumerate(timing.TIMED)
    ]
    lengths, attention = found["cpu"].lengths, found["cpu"].seconds[0]
    if np.isfinite(attention[0]):  # what the square says, from the longest that was measured
        last = int(np.isfinite(attention).sum()) - 1
        square = [1000 * attention[last] * (n / lengths[last]) ** 2 for n in lengths]
        lines.append(Curve(t("cost.theory"), lengths, square, 5, "dot"))
    axes = {"xaxis": "n", "yaxis": "ms", "unit": " ms", "ticks": lengths, "up": (0.1, 1e4)}
    return log_curves(lines, height=380, **axes, **look().style)


# Small things


def _scale(factor: float) -> None:
    state = st.session_state
    state["cost_n"] = max(1, min(MOST, int(state["cost_n"] * factor)))


def _walk() -> None:
    state = st.session_state
    state["walk"] = tuple(place + 1 for place in state["walks"].ends)


def _start() -> None:
    st.session_state[RUN] = True


def _stop() -> None:
    st.session_state[RUN] = False


def _again(*asked: int) -> None:
    _works(Asked(*asked), again=True)
    _start()


def _brief(number: float) -> str:
    """Write a number with three digits that count: 1.95, 149, 12,300."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return t("cost.seconds", number=_brief(seconds))
    return (
        t("cost.minutes", number=_brief(seconds / 60))
        if seconds < 7200
        else t("cost.hours", number=_brief(seconds / 3600))
    )


def _bytes(size: float) -> str:
    place = min(4, max(0, int(math.log2(max(size, 1)) // 10)))
    return f"{size / 1024**place:,.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[place]}"
