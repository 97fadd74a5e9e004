"""Generate: the controls, cached doors and pictures of the page on which a model writes, word by word."""

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import streamlit as st

from attention_core import compute
from attention_core.models.catalogue import offered
from attention_core.models.sees import sees
from attention_core.models.writers import rewrites, writers
from ui import controls, link, models
from ui.components import head_strip, heatmap
from ui.components.cache_cells import cache_cells
from ui.components.next_tokens import next_tokens
from ui.components.shared_heads import shared_heads
from ui.components.written_text import written_text
from ui.compute import LIMIT, door, in_pieces, paced, reading
from ui.lesson import Look, Table, chart, look
from ui.pick import pick
from ui.show import drawn_heat, few, heat
from ui.take_away import take_away, take_map
from ui.text import heading, note, say, t, words

if TYPE_CHECKING:
    from attention_core.generating import Cheat, Guesses, Step, Written
    from attention_core.labs.kv_cache import Cost, Holds, Lap, Named, PooledHead, Shape
    from attention_core.views import HeadView

R = TypeVar("R")
PROMPT = "The capital of France is"
MOST, USUAL = 200, 30  # new tokens
MOST_SEED, HOTTEST, WIDEST = 9999, 1e9, 1_000_000
TICK = 0.3  # seconds
RACE = 20  # tokens
PLAYING, REACHED, ASKED, SIZED = "_writing", "_written", "_asked", "_sized"
SIZES = (32, 64, 80, 96, 128, 256)
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
NUMBERS = (4, 2, 1)  # bytes
LAYERS = 128
QUERIES = (1, 2, 4, 8, 9, 12, 14, 16, 24, 32, 40, 48, 64, 96, 128)


class Asked(NamedTuple):
    """What is to be written: by whom, from what, and how each token is chosen."""

    model: str
    text: str
    how: str
    temperature: float
    top_k: int
    top_p: float
    seed: int


class Now(NamedTuple):
    """A text that is being written, at a step, and a head (from 0) that is watched."""

    asked: Asked
    number: int
    layer: int
    head: int

    @property
    def step(self) -> "Step":
        """What comes next."""
        return _step(self.asked, self.number)

    @property
    def written(self) -> "Written":
        """The text so far."""
        return _written(self.asked, self.number)

    def view(self, *without: str) -> "HeadView":
        """The watched head, without some terms of its formula."""
        return _view(self.asked, self.number, self.layer, self.head, without)


# The doors: each step is a piece of work of its own, so that whoever else waits, waits for one


def _until(job: Callable[..., R | None], asked: Asked, *more: object) -> R:
    from attention_core.generating import Sampling

    while (found := compute.run(job, asked.model, asked.text, LIMIT, Sampling(*asked[2:]), *more)) is None:
        pass
    return found


def _step_job(asked: Asked, number: int) -> "Step":
    def job(*told: Any) -> "Step | None":  # noqa: ANN401
        from attention_core import generating as lab

        return lab.advance(*told)

    return _until(job, asked, number)


def _written_job(asked: Asked, number: int) -> "Written":
    def job(*told: Any) -> "Written | None":  # noqa: ANN401
        from attention_core import generating as lab

        return lab.text_at(*told)

    return _until(job, asked, number)


def _view_job(asked: Asked, number: int, layer: int, head: int, without: tuple[str, ...]) -> "HeadView":
    def job(*told: Any) -> "HeadView | None":  # noqa: ANN401
        from attention_core import generating as lab

        return lab.head_at(*told)

    return _until(job, asked, number, layer, head, without)


def _strip_job(asked: Asked, number: int, layer: int) -> np.ndarray:
    def job(*told: Any) -> "np.ndarray | None":  # noqa: ANN401
        from attention_core import generating as lab

        return lab.strip_at(*told)

    return _until(job, asked, number, layer)


def _cheat_job(asked: Asked, number: int) -> "Cheat":
    from attention_core.generating import Sampling

    def begin(*told: Any) -> "Guesses | None":  # noqa: ANN401
        from attention_core import generating as lab

        return lab.guesses_at(*told)

    def job(*told: Any) -> "Cheat | None":  # noqa: ANN401
        from attention_core import generating as lab

        return lab.cheat_at(*told)

    masked = in_pieces(_until(begin, asked, number)).found
    return paced(job, asked.model, asked.text, LIMIT, Sampling(*asked[2:]), number, masked)


def _pooled_job(asked: Asked, number: int, layer: int, head: int, groups: int) -> "PooledHead":
    def job(*told: Any) -> "PooledHead | None":  # noqa: ANN401
        from attention_core.labs import kv_cache as lab

        return lab.pooled_head(*told)

    return _until(job, asked, number, layer, head, groups)


_step, _written = door(_step_job, 8192), door(_written_job, 2048)
_view, _strip, _cheat, _pooled = door(_view_job, 64), door(_strip_job, 128), door(_cheat_job, 64), door(_pooled_job, 64)


@door
def _shape(model: str) -> "tuple[Shape, int]":
    def job() -> "tuple[Shape, int]":
        from attention_core.labs import kv_cache as lab

        return lab.shape_named(model)

    return compute.run(job)


def _cost_job(asked: Asked, number: int) -> "Cost":
    def job(*told: Any) -> "Cost | None":  # noqa: ANN401
        from attention_core.labs import kv_cache as lab

        return lab.cost_at(*told)

    return _until(job, asked, number)


_cost = door(_cost_job, 512)


@door
def _paragraph(model: str, groups: int) -> tuple[float, int]:
    def begin() -> "Guesses":
        from attention_core.labs import kv_cache as lab

        return lab.paragraph(model, groups)

    def end(read: "Guesses") -> tuple[float, int]:
        from attention_core.labs import kv_cache as lab

        return lab.paragraph_perplexity(read)

    return compute.run(end, in_pieces(compute.run(begin)))


@door
def _room(model: str, tokens: int) -> int:
    def job() -> int:
        from attention_core.labs import kv_cache as lab

        return lab.room(model, tokens, RACE)

    return compute.run(job)


@door
def _lap(model: str, text: str, cached: bool, number: int) -> "Lap":
    def job() -> "Lap | None":
        from attention_core.labs import kv_cache as lab

        return lab.lap(model, text, LIMIT, cached, number)

    while (found := compute.run(job)) is None:
        pass
    return found


def _named() -> "dict[str, Named]":
    def job() -> "dict[str, Named]":
        from attention_core.labs import kv_cache as lab

        return lab.NAMED

    return compute.run(job)


# What is asked


def prompt() -> str:
    """Ask for the words to begin with."""
    if link.said("chat") == "yes":
        link.tell("generate.no_chat")
    return controls.sentence_box(label=t("generate.prompt"), default=PROMPT)


def choices(text: str) -> Asked:
    """Ask for the model, and how it chooses."""
    here = writers()
    if not here:
        link.publish()
        st.info(t("generate.nobody"))
        st.stop()
    others = [name for name in offered() if name not in here]
    said = models.coming() or st.session_state.get("model") or st.session_state[link.CHOSEN].get("model")
    usual = "smollm2" if "smollm2" in here else next(iter(here))
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        if said in others:
            link.forget("model", "layer", "head")
        model = models.choose(here, usual)
        how = pick("generate.how", ("greedy", "sample"), "greedy")
        rest: tuple = (1.0, 0, 1.0, 1)
        if how == "sample":
            rest = _sampling()
    if said in others:
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            why, page = _why_not(said)
            note(f"generate.{why}", model=offered()[said], writer=here[model])
            st.page_link(f"pages/{page}.py", label=t("generate.look_at_it"), query_params={"model": said})
    return Asked(model, text, how, *rest)


def _why_not(name: str) -> tuple[str, str]:
    """Return why a model does not write here, and the page on which it can be looked at."""
    return ("sees", "picture") if sees(name) else ("two_stacks" if rewrites(name) else "reads_only", "sentence")


def _sampling() -> tuple[float, int, float, int]:
    temperature = link.restore("temperature", 1.0, _number(0, HOTTEST))
    help = t("generate.temperature_help")
    st.number_input(
        t("generate.temperature"), 0.0, HOTTEST, step=0.1, format="%g", key="temperature", width=190, help=help
    )
    top_k = link.restore("top_k", 0, link.whole(0, WIDEST))
    st.number_input(t("generate.top_k"), 0, WIDEST, step=1, key="top_k", width=120, help=t("generate.top_k_help"))
    top_p = link.restore("top_p", 1.0, _number(0.05, 1))
    st.number_input(
        t("generate.top_p"), 0.05, 1.0, step=0.05, format="%g", key="top_p", width=120, help=t("generate.top_p_help")
    )
    seed = link.restore("seed", 1, link.whole(1, MOST_SEED))
    st.number_input(t("generate.seed"), 1, MOST_SEED, step=1, key="seed", width=120, help=t("generate.seed_help"))
    return temperature, top_k, top_p, seed


def reach(asked: Asked) -> int:
    """Ask how far to write, and write so far; return how many new tokens there are."""
    state = st.session_state
    if state.get(ASKED, asked)[:2] != asked[:2] and "steps" not in state[link.FRESH]:
        _to(0)  # another prompt
    if state[link.MOVED]:
        state[PLAYING] = False  # whoever comes back from another page finds the text as they left it
    state[ASKED] = asked
    reading(asked.model, asked.text)  # gets the model ready, or says what is wrong
    wanted = link.restore("steps", 0, _steps)
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        until = _until_choice()
        playing = state.get(PLAYING, False)
        for name, by, icon in (
            ("first", -MOST, "first_page"),
            ("back", -1, "chevron_left"),
            ("step", 1, "chevron_right"),
        ):
            icon = f":material/{icon}:"
            end = wanted == 0 and by < 0 and not playing
            st.button(t(f"generate.{name}"), icon=icon, key=f"write_{name}", disabled=end, on_click=_by, args=(by,))
        if playing:
            st.button(t("generate.pause"), icon=":material/pause:", key="write_pause", type="primary", on_click=_pause)
        else:
            play = {"type": "primary", "on_click": _play, "args": (until,)}
            st.button(t("generate.play"), icon=":material/play_arrow:", key="write_play", **play)
        place = st.empty()
    begun, step = time.monotonic(), _step(asked, 0)
    for number in range(1, wanted + 1):
        if step.over:
            break
        if time.monotonic() - begun > 0.5:  # what is there already takes no time
            place.progress(number / wanted, t("generate.reaching", number=number, wanted=wanted))
        step = _step(asked, number)
        state[REACHED] = number
    place.empty()
    state[REACHED] = state["steps"] = step.number
    link.keep("steps", step.number)
    return step.number


def _until_choice() -> int:
    until = link.restore("tokens", USUAL, link.whole(1, 10**9))
    st.number_input(
        t("generate.tokens"), 1, 10**9, step=10, key="tokens", width=170, help=t("generate.tokens_help", most=MOST)
    )
    if until > MOST:
        link.tell("generate.too_many", asked=f"{until:,}", most=MOST)
    return min(until, MOST)


def _steps(said: str) -> int:
    if (number := int(said)) < 0:
        raise ValueError(said)
    if number > MOST:
        link.tell("generate.too_many", asked=f"{number:,}", most=MOST)
    return min(number, MOST)


def _to(number: int) -> None:
    st.session_state[PLAYING] = False
    st.session_state["steps"] = max(0, min(number, MOST))


def _by(number: int) -> None:
    _to(st.session_state["steps"] + number)


def _play(until: int) -> None:
    if st.session_state.get("steps", 0) >= until:
        _to(0)
    st.session_state[PLAYING] = True


def _pause() -> None:
    _to(min(st.session_state.get("steps", 0), st.session_state.get(REACHED, 0)))


def watched(asked: Asked, number: int) -> Now:
    """Ask for the head to watch."""
    left, right = st.columns([1, 3], gap="medium", vertical_alignment="bottom")
    with left:
        layer = controls.layer_choice(asked.model, asked.text)
    heads = reading(asked.model, asked.text).heads
    head = link.restore("head", controls.BEST_HEAD.get(asked.model, controls.FIRST_HEAD)[1], link.whole(1, heads)) - 1
    now = Now(asked, number, layer, head)
    meta = {
        "chosen": head,
        "names": [str(n) for n in range(1, heads + 1)],
        "groups": now.view().groups,
        "words": words("head_strip"),
    }
    with right:
        st.html(f'<p class="gaze-label">{t("controls.head")}</p>')
        head_strip(meta, {"tiles": _strip(asked, number, layer)}, key="heads", on_pick=_pick_head)
    return now


def _pick_head() -> None:
    st.session_state["head"] = st.session_state["heads"].picked + 1


# The stage


def stage(now: Now) -> None:
    """Show the text so far, what comes next, the watched head, and what is computed; while it plays, each tick adds."""
    playing = st.session_state.get(PLAYING, False)
    st.fragment(_stage, run_every=TICK if playing else None)(now)
    if playing:
        note("generate.below_waits", new=now.number)


def _stage(now: Now) -> None:
    state = st.session_state
    if state.get(PLAYING, False):
        number = state["steps"]
        if not _step(now.asked, number).over and number < min(state["tokens"], MOST):
            number += 1
        step = _step(now.asked, number)
        state[REACHED] = state["steps"] = number
        now = now._replace(number=number)
        if step.over or number >= min(state["tokens"], MOST):
            state[PLAYING] = False
            st.rerun()
    elif state["steps"] != now.number:  # a token was picked, which concerns the whole page
        st.rerun()
    _text(now)
    left, right = st.columns([3, 4], gap="large")
    with left:
        heading("generate.next")
        _candidates(now)
    with right:
        st.markdown(f"**{t('generate.triangle', layer=now.layer + 1, head=now.head + 1)}**")
        _triangle(now)
    heading("generate.cells")
    _cells(now)


def _text(now: Now) -> None:
    written, step = now.written, now.step
    before = [_step(now.asked, n).chosen for n in range(now.number)]
    meta = {
        "prompt": written.before,
        "new": list(written.new),
        "titles": [
            t("generate.token", number=n + 1, probability=_p(c.probability), rank=f"{c.rank:,}")
            for n, c in enumerate(before)
        ],
        "over": step.over == "end",
    }
    written_text(meta, key="written", on_pick=_pick_token)
    note("generate.state", prompt=written.prompt, new=now.number)
    if step.over:
        note(f"generate.over_{step.over}", most=MOST, token=step.chosen.label, tokens=len(written.labels))


def _pick_token() -> None:
    _to(st.session_state["written"].picked)


def _candidates(now: Now) -> None:
    step, asked = now.step, now.asked
    sampled = asked.how == "sample"
    meta = {
        "labels": [c.label for c in step.best],
        "ranks": [c.rank for c in step.best],
        "probabilities": [c.probability for c in step.best],
        "chances": [c.chance for c in step.best],
        "chosen": next(n for n, c in enumerate(step.best) if c.id == step.chosen.id),
        "sampled": sampled,
        "words": words("next_tokens"),
    }
    next_tokens(meta, key="next")
    told = {"token": step.chosen.label, "probability": _p(step.chosen.probability), "rank": f"{step.chosen.rank:,}"}
    if not sampled:
        note("generate.chose_greedy", **told)
    elif asked.temperature == 0:
        note("generate.chose_zero", **told)
    else:
        note("generate.chose_drawn", chance=_p(step.chosen.chance), left=f"{step.left:,}", **told)
        highest = max(c.chance for c in step.best)
        if step.left > 1 and highest < 1.5 / step.left:
            note("generate.chose_hot", left=f"{step.left:,}", highest=f"{highest:.9f}", even=f"{1 / step.left:.9f}")


def _triangle(now: Now) -> None:
    view = now.view()
    meta, arrays = drawn_heat(view, "weights", view=f"write-{now.number}", param=None)
    heatmap(meta | {"pinned": len(view.queries) - 1}, arrays, key="write-heat")
    row = view.weights[-1]
    most = int(row.argmax())
    say(
        "generate.row",
        query=_word(view.queries[-1]),
        key=_word(view.keys[most]),
        weight=few(row[most]),
        next=_word(now.step.chosen.label),
    )


def _cells(now: Now) -> None:
    from attention_core.labs.kv_cache import tokens_computed

    labels = now.written.labels
    prompt = now.step.prompt
    fresh = 1 if now.number else prompt
    cache_cells({"labels": labels, "fresh": fresh, "words": words("cache_cells")}, key="cells")
    say(
        "generate.cells_state",
        step=now.number + 1,
        fresh=fresh,
        all=len(labels),
        kept=f"{tokens_computed(prompt, now.number, cached=True):,}",
        again=f"{tokens_computed(prompt, now.number, cached=False):,}",
    )
    holds = _cost(now.asked, now.number).holds
    if holds and min(holds.kept) < len(labels):
        most = min(holds.kept)
        note("generate.cells_local", local=holds.kept.count(most), layers=len(holds.kept), most=most)


# The mask


def mask(now: Now) -> None:
    """Explain the mask on the text's own triangle, and show what becomes of it without one."""
    say("generate.mask_intro")
    asked = link.restore("cheat", False, link.switch)
    st.toggle(t("generate.cheat"), key="cheat")
    if not asked:
        return
    view = now.view()
    if view.only or "causal" not in dict(view.terms):
        note("generate.no_mask")
        return
    open_view, found = now.view("causal"), _cheat(now.asked, now.number)
    future = np.triu(np.ones_like(open_view.weights, dtype=bool), 1)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(f"**{t('generate.open', layer=now.layer + 1, head=now.head + 1)}**")
        heat(open_view, "weights", view="write-open")
        if len(future) > 1:
            share = np.where(future, open_view.weights, 0).sum(axis=1)[:-1].mean()
            say("generate.open_share", share=f"{share:.0%}")
    with right:
        heading("generate.guess")
        if not found.masked:
            note("generate.one_token")
            return
        chart(_cheat_chart(found.labels, found.masked, found.open, look()), "cheat-chart")
        means = [float(np.mean(p)) for p in (found.masked, found.open)]
        better = sum(b > a for a, b in zip(found.masked, found.open, strict=True))
        up, half = means[1] > means[0], len(found.masked) / 2
        alike = f"{means[0]:.2f}" == f"{means[1]:.2f}"
        kind = "better" if up and better > half else "worse" if not up and better < half else "mixed"
        kind = "mixed" if alike else kind
        told = {"masked": f"{means[0]:.2f}", "open": f"{means[1]:.2f}", "better": better, "places": len(found.masked)}
        say(f"generate.cheat_{kind}", **told)
        if len(found.labels) < len(view.queries):
            note("generate.cheat_cut", tokens=len(found.labels))


@st.cache_resource(max_entries=64, show_spinner=False)
def _cheat_chart(labels: tuple, masked: tuple, unmasked: tuple, shown: Look) -> object:
    from figures.scaling import weight_pairs

    names = t("generate.with_mask"), t("generate.without_mask")
    return weight_pairs(labels[1:], np.array([masked, unmasked]), names, **shown.style)


# The cache


def saved(now: Now) -> None:
    """Say what this step costs with and without a cache, and let both write."""
    tokens = len(now.written.labels)
    found, alone, holds = _cost(now.asked, now.number)
    if found is None:
        note("generate.experts")
    elif tokens > 1:
        say(
            "generate.work",
            tokens=tokens,
            cached=f"{found.total:,}",
            uncached=f"{alone.total:,}",
            times=f"{alone.total / found.total:.1f}",
        )
        parts = {
            "weights": f"{found.weights:,}",
            "attention": f"{found.attention:,}",
            "vocabulary": f"{found.vocabulary:,}",
        }
        note("generate.work_parts", **parts)
    if holds:
        _holds(holds, tokens)
    run = link.restore("race", False, link.switch)
    st.toggle(t("generate.race", tokens=RACE), key="race")
    if run:
        _race(now)


def _holds(holds: "Holds", tokens: int) -> None:
    """Write out the size of the cache, and compare it with the memory that it takes."""
    features = f"2 · {holds.key}" if holds.key == holds.value else f"({holds.key} + {holds.value})"
    kept = Counter(holds.kept)
    total = holds.expected
    told = {"groups": holds.groups, "features": features, "number": holds.number, "tokens": tokens}
    told |= {"bytes": f"{total:,}", "short": _short(total), "layers": len(holds.kept)}
    local = {"parts": " + ".join(f"{layers} · {of}" for of, layers in kept.items()), "most": min(kept)}
    say("generate.holds" if len(kept) == 1 and tokens in kept else "generate.holds_local", **told, **local)
    note("generate.held", held=f"{holds.bytes:,}")


def _race(now: Now) -> None:
    from attention_core.labs.kv_cache import tokens_computed

    read = reading(now.asked.model, now.asked.text)
    prompt = len(read.labels)
    count = _room(now.asked.model, prompt)
    place, laps, begun = st.empty(), {True: [], False: []}, time.monotonic()
    for cached in (True, False):
        for number in range(count):
            if time.monotonic() - begun > 0.5:
                place.progress((number + count * (not cached)) / (2 * count), t("generate.racing"))
            laps[cached].append(_lap(now.asked.model, now.asked.text, cached, number))
    place.empty()
    seconds = {cached: sum(lap.seconds for lap in found) for cached, found in laps.items()}
    one, other = st.columns(2, gap="large")
    for column, cached in ((one, True), (other, False)):
        with column:
            name = t("cache_cells.with") if cached else t("cache_cells.without")
            st.metric(name, t("generate.speed", speed=f"{count / seconds[cached]:.1f}"), border=True)
    same = [a.id == b.id for a, b in zip(laps[True], laps[False], strict=True)]
    kept, again = (tokens_computed(prompt, count - 1, cached=cached) for cached in (True, False))
    told = {"tokens": count, "kept": kept, "again": again}
    say(
        "generate.race_same" if all(same) else "generate.race_other",
        at=same.index(False) + 1 if not all(same) else 0,
        **told,
    )


def sizes(asked: Asked) -> None:
    """Ask for the shape of a model, this one's or a named one's, and show how large its cache is."""
    from attention_core.labs.kv_cache import cache_bytes

    model, here = asked.model, reading(asked.model, asked.text)
    named, (own, number) = _named(), _shape(model)
    if st.session_state.setdefault(SIZED, model) != model and link.said("kv_preset") in (None, "own"):
        _forget_shape()  # this model's, not those of the one before
    st.session_state[SIZED] = model
    presets = {"own": t("generate.kv_own")} | {name: found.title for name, found in named.items()}
    preset = pick("generate.kv_preset", presets, "own", name=presets.get, on_change=_forget_shape)
    preset_is = shape, tokens, bytes_ = (own, 1024, number) if preset == "own" else named[preset][1:]
    left, middle, right = st.columns(3, gap="large")
    with left:
        layers = _slider("kv_layers", range(1, max(LAYERS, shape.layers) + 1), shape.layers)
        heads = _slider("kv_heads", sorted({*QUERIES, shape.heads}), shape.heads)
    with middle:
        fits = [n for n in range(1, heads + 1) if heads % n == 0]
        groups = _slider("kv_groups", fits, min(fits, key=lambda n: abs(n - shape.groups)))
        size = _slider("kv_size", sorted({*SIZES, shape.size}), shape.size)
    with right:
        tokens = _slider("kv_tokens", sorted({*LENGTHS, tokens}), tokens)
        bytes_ = _slider("kv_bytes", sorted(NUMBERS), bytes_, lambda n: t(f"generate.kv_bytes_{n}"))
    shape = type(shape)(layers, heads, groups, size)
    if preset == "own" and here.which.local:
        note("generate.kv_local", local=len(here.which.local), layers=own.layers)
    if (shape, tokens, bytes_) != tuple(preset_is):
        note("generate.kv_changed", model=presets[preset])
    total = cache_bytes(shape, tokens, bytes_)
    told = {"layers": layers, "groups": groups, "size": size, "tokens": f"{tokens:,}", "number": bytes_}
    say("generate.kv_size_is", bytes=f"{total:,}", short=_short(total), **told)
    parts = []
    for n in dict.fromkeys((heads, groups, 1)):
        kind = "mha" if n == heads else "mqa" if n == 1 else "gqa"
        size_of = _short(cache_bytes(shape._replace(groups=n), tokens, bytes_))
        parts.append({"groups": n, "title": t(f"generate.{kind}"), "size": size_of, "chosen": n == groups})
    shared_heads({"heads": heads, "parts": parts, "words": words("shared_heads")}, key="sharing")


def fewer(now: Now) -> None:
    """Ask into how many key-value heads to average this model's, and show what that does to it."""
    shape, _ = _shape(now.asked.model)
    if now.view().only:
        note("generate.pool_hidden")
        return
    if shape.groups == 1:
        note("generate.pool_one")
        return
    fits = [n for n in range(shape.groups, 0, -1) if shape.groups % n == 0]
    groups = pick("generate.pool", fits, shape.groups, key="groups", name=str)
    if groups == shape.groups:
        return
    (before, tokens), (after, _) = _paragraph(now.asked.model, shape.groups), _paragraph(now.asked.model, groups)
    say("generate.pool_size", before=shape.groups, after=groups, times=shape.groups // groups)
    say("generate.pool_perplexity", before=f"{before:,.1f}", after=f"{after:,.1f}", tokens=tokens)
    found = _pooled(now.asked, now.number, now.layer, now.head, groups)
    left, right = st.columns(2, gap="large")
    for column, view, name in ((left, found.own, shape.groups), (right, found.pooled, groups)):
        with column:
            st.markdown(f"**{t('generate.pool_head', layer=now.layer + 1, head=now.head + 1, groups=name)}**")
            heat(view, "weights", view="write-pooled", key=f"pooled-{name == groups}")
    alone = 0 if found.own.sink.any() else 1  # a first row that has one key can't change
    far = np.array(found.distances[alone:] or (0.0,))
    say("generate.pool_distance", mean=f"{far.mean():.2f}", most=f"{far.max():.2f}")
    note(f"generate.pool_{'first' if alone else 'sink'}")


def files(now: Now) -> None:
    """Offer the watched head as files."""
    view, written = now.view(), now.written
    if written.again and len(written.labels) <= LIMIT:
        take_away(now.asked.model, written.text, now.layer, {now.head: view})
    else:  # drawn tokens that nobody would read in this text: another capture would not be the same
        name = t("take_away.head", layer=now.layer + 1, head=now.head + 1)
        take_map(view, name, "gaze-generate")


def tables(now: Now) -> dict[str, Table]:
    """Return every number behind the pictures: the steps, and what comes next."""
    steps = [_step(now.asked, n) for n in range(now.number + 1)]
    columns = [t("next_tokens.probability"), t("next_tokens.chance"), t("generate.rank"), "id", t("generate.left")]
    rows = [[s.chosen.probability, s.chosen.chance, s.chosen.rank, s.chosen.id, s.left] for s in steps]
    best = steps[-1].best
    view = now.view()
    return {
        t("generate.table_steps"): Table(
            [f"{s.number + 1} · {s.chosen.label}" for s in steps], columns, np.array(rows)
        ),
        t("generate.table_next"): Table(
            [c.label for c in best], columns[:4], np.array([[c.probability, c.chance, c.rank, c.id] for c in best])
        ),
        t("generate.table_row"): Table(list(view.keys), [view.queries[-1]], view.weights[-1][:, None]),
    }


# Small things


def _short(number: int) -> str:
    """Write a number of bytes as people read it: 2 GiB."""
    power = min(4, int(math.log2(number) // 10))
    name, value = ("B", "KiB", "MiB", "GiB", "TiB")[power], number / 1024**power
    return f"{value:.3g} {name}" if power < 3 else f"{value:,.2f} {name}"


def _p(probability: float) -> str:
    """Write a probability with three decimals, a small one with two digits that count: 0.0000042."""
    if not 1e-9 <= probability < 0.0095:
        return f"{probability:.3f}" if probability >= 1e-9 else "< 0.000000001"
    return f"{probability:.{1 - math.floor(math.log10(probability))}f}"


def _word(label: str) -> str:
    return label.strip("·") or label


def _slider(key: str, among: Any, usual: int, name: Callable[[int], str] = str) -> int:  # noqa: ANN401
    options = list(among)
    chosen = link.restore(key, usual, link.one_of(*options))
    if len(options) > 1:
        st.select_slider(t(f"generate.{key}"), options, key=key, format_func=name)
    return chosen


def _forget_shape() -> None:
    link.forget("kv_layers", "kv_heads", "kv_groups", "kv_size", "kv_tokens", "kv_bytes")


def _number(low: float, high: float) -> Callable[[str], float]:
    def parse(said: str) -> float:
        if not low <= float(said) <= high:
            raise ValueError(said)
        return float(said)

    return parse
