"""The page "What if": edits of heads, what the model says before and after, and which heads an outcome rests on."""

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from attention_core import compute
from attention_core.inputs import Input
from ui import link
from ui.changes.edits import Edits, edited_view, joined, last_word, words_of
from ui.components.before_after import before_after
from ui.components.head_grid import head_grid
from ui.compute import LIMIT, door, head_view, in_pieces, reading, ways
from ui.inputs import written_out
from ui.lesson import Table
from ui.pick import pick
from ui.show import focus, heat
from ui.take_away import take_away, take_map
from ui.text import note, plain, say, t, words

if TYPE_CHECKING:
    from attention_core.what_if import Meant, Said

EXAMPLE = "The capital of France is"
FIRST = {"model": "smollm2", "layer": "24", "head": "5"}  # the strongest head for " Paris"; a test finds it again
RUN, PICKED, TICK, PIECE = "_what_if_run", "_what_if_picked", 0.2, 0.5  # seconds
PLACES = 3  # decimals
MOST_TOKENS = 128  # of a text whose heads are knocked out, and whose every row is compared
STRONGEST = 3


def changeable(model: str, text: str | Input) -> None:
    """End the page in a sentence where a model's attention can't be changed from outside."""
    if ways(model).target:
        st.info(t("what_if.two_stacks"))
        link.stop()
    if reason := head_view(model, text, 0, 0, "token", "shown").only:
        st.info(t("what_if.weights_only", reason=plain(reason)))
        link.stop()


def first_visit() -> None:
    """Let a first visit begin with a model that writes, and with a head that matters for the example."""
    chosen = st.session_state[link.CHOSEN]
    if "model" not in chosen:
        chosen |= {"model": FIRST["model"]} if {"text", "layer", "head"} & set(chosen) else FIRST


# Before and after


def outcome(model: str, text: str | Input, edits: Edits) -> int | str:
    """Show what the model says before and after, and ask for the outcome that heads are judged by."""
    wanted = link.said("aim") or ""
    said = _said(model, text, edits, int(wanted) if re.fullmatch("[0-9]{1,9}", wanted) else None)
    if said is not None:
        aim = link.restore("aim", said.ids[int(said.before.argmax())], link.one_of(*said.ids))
        at = said.ids.index(aim)
        before, after = _percent(said.before[at]), _percent(said.after[at])
        say("what_if.said", token=_visible(said.labels[at]).strip("“”"), before=before, after=after)
        note("what_if.divergence", nats=_small(said.divergence))
        meta = {
            "names": [_visible(name) for name in said.labels],
            "chosen": at,
            "shares": True,
            "words": words("before_after"),
        }
        before_after(meta, said.before, said.after, key="said", on_pick=lambda: _pick_aim("said", said.ids))
        return aim
    meant, fills = _meant(model, text, edits), _fills(model)
    if fills:
        note("what_if.mask")
    like = link.restore("like", meant.sentences[0], str)
    say("what_if.meant_fills" if fills else "what_if.meant", cosine=f"{meant.cosine:.3f}")
    at = meant.sentences.index(like) if like in meant.sentences else None
    meta = {"names": meant.sentences, "chosen": at, "shares": False, "words": words("before_after")}
    before_after(meta, meant.before, meant.after, key="meant", on_pick=lambda: _pick_like(meant.sentences))
    note("what_if.near")
    return like


def looked(model: str, text: str | Input, layer: int, head: int, edits: Edits) -> None:
    """Draw the chosen head, before or after the edits."""
    name = lambda one: t(f"before_after.{one}")  # noqa: E731
    when = pick("what_if.when", ("before", "after"), "after", name=name, label_visibility="collapsed")
    own = head_view(model, text, layer, head, "token", "shown")
    heat(own if when == "before" else edited_view(model, text, edits, layer, head), "weights", view=f"{model}-what-if")


def files(model: str, text: str | Input, layer: int, head: int, edits: Edits) -> None:
    """Offer the head as it is drawn, before or after the edits, as files and as Python."""
    if not edits or link.said("when") == "before":
        take_away(model, text, layer, {head: head_view(model, text, layer, head, "token", "shown")})
        return
    view = edited_view(model, text, edits, layer, head)
    name = " · ".join([t("take_away.head", layer=layer + 1, head=head + 1), t("before_after.after")])
    file = f"gaze-what-if-layer-{layer + 1}-head-{head + 1}"
    lines = lambda: _lines(model, text, edits, layer, head, *focus(view))  # noqa: E731
    take_map(view, name, file, page_of=written_out(text), python=lines)


def later(model: str, text: str | Input, edits: Edits, layer: int, head: int) -> None:
    """Show how differently every head looks after the edits, and say which of the others does most."""
    read = reading(model, text)
    if not edits or len(read.labels) > MOST_TOKENS:
        note("what_if.later_none" if not edits else "what_if.too_long", most=MOST_TOKENS)
        return
    moved = np.stack([_moved(model, text, edits, n) for n in range(read.layers)])
    free = np.ones(moved.shape, dtype=bool)
    for one in (one for one in edits if one.kind not in ("off", "scale")):  # these two change no weights of the head
        free[slice(None) if one.layer is None else one.layer, slice(None) if one.head is None else one.head] = False
    others = np.where(free, moved, 0)
    far = np.unravel_index(int(others.argmax()), moved.shape)
    if others.max() < 0.0005:
        note("what_if.later_still" if free.any() else "what_if.later_all")
    else:
        say("what_if.later", layer=far[0] + 1, head=far[1] + 1, distance=f"{others.max():.3f}")
    if moved.max() >= 0.0005:
        _grid("later", t("what_if.later_grid"), moved, (layer, head), signed=False)


# Which heads matter


@dataclass
class Run:
    """Heads knocked out one by one, as far as it is."""

    asked: tuple[str, str | Input, int | str]
    pieces: list[list[tuple[int, int]]]
    effects: np.ndarray
    plain: float
    running: bool = False
    done: int = 0
    seconds: float = 0.0


def importance(model: str, text: str | Input, aim: int | str, layer: int, head: int) -> Run | None:
    """Knock all heads out one by one, with a progress bar; beside it where they look, and gradient × weight."""
    from attention_core.importance import pieces, rank_correlation

    read = reading(model, text)
    if len(read.labels) > MOST_TOKENS:
        note("what_if.too_long", most=MOST_TOKENS)
        return None
    state, asked = st.session_state, (model, text, aim)
    run: Run | None = state.get(RUN)
    if run is None or run.asked != asked:
        batches = list(pieces(read.layers, read.heads, len(read.labels)))
        run = state[RUN] = Run(asked, batches, np.full((read.layers, read.heads), np.nan), _together(*asked, ()))
    ended = run.done >= len(run.pieces)
    with st.container(horizontal=True, gap="small"):
        label = "what_if.go_on" if run.done > 0 and not ended else "what_if.start"
        st.button(
            t(label, heads=run.effects.size),
            key="knock",
            type="primary",
            on_click=_start,
            disabled=run.running or ended,
        )
        st.button(t("what_if.stop"), key="knock_stop", on_click=_stop, disabled=not run.running)
    if isinstance(aim, int):
        say("what_if.effect_is_token", token=_visible(_token(model, aim)).strip("“”"))
    else:
        say("what_if.effect_is_like", sentence=aim)
    one, two, three = st.columns(3, gap="medium")
    with one:
        st.fragment(_advance, run_every=TICK if run.running else None)(run, layer, head)
    if run.running or not ended:
        return run
    names = words_of(model, text)
    word = link.restore("at_word", max(0, last_word(names) - 1), link.whole(0, len(names) - 1))
    slopes, looks = _slopes(*asked), _looks(model, text, word)
    told = names[word].strip("·")
    with two:
        _grid("slopes", t("what_if.slopes"), -slopes, (layer, head), signed=True)
    with three:
        _grid("looks", t("what_if.looks", word=told), looks, (layer, head), signed=False)
        st.selectbox(t("what_if.at_word"), range(len(names)), key="at_word", format_func=lambda n: names[n], width=200)
    lost = -run.effects.ravel()
    agree = {"slopes": slopes, "looks": looks}
    say("what_if.agree", word=told, **{name: _signed(rank_correlation(lost, of.ravel())) for name, of in agree.items()})
    _strongest(run)
    return run


def _advance(run: Run, layer: int, head: int) -> None:
    """Draw how far it is; while it runs, each tick takes it further."""
    if st.session_state.pop(PICKED, False):  # a pick within the fragment runs the fragment alone
        st.rerun()
    until = time.monotonic() + PIECE
    while run.running and run.done < len(run.pieces) and time.monotonic() < until:
        start, number = time.monotonic(), run.done
        batch = run.pieces[number]
        found = _each(*run.asked, tuple(batch))
        for at, value in zip(batch, found, strict=True):
            run.effects[at] = value - run.plain
        run.seconds += time.monotonic() - start
        run.done = max(run.done, number + 1)  # a run that this one overtook may still be at the same piece
    ended = run.done >= len(run.pieces)
    if run.done:
        known, every = int(np.isfinite(run.effects).sum()), run.effects.size
        _grid("effects", t("what_if.effects"), run.effects, (layer, head), signed=True)
        said = "progress" if run.seconds >= 0.05 else "progress_known"
        st.progress(known / every, t(f"what_if.{said}", done=known, heads=every, seconds=f"{run.seconds:.1f}"))
    if run.running and ended:
        run.running = False
        st.rerun()


def _strongest(run: Run) -> None:
    flat = run.effects.ravel()
    best = np.argsort(flat, kind="stable")[:STRONGEST]
    heads = tuple((int(n) // run.effects.shape[1], int(n) % run.effects.shape[1]) for n in best)
    after = _together(*run.asked, heads)
    names = "; ".join(t("what_if.of_head", layer=layer + 1, head=head + 1) for layer, head in heads)
    if isinstance(run.asked[2], int):
        values = {"before": _percent(np.exp(run.plain)), "after": _percent(np.exp(after))}
    else:
        values = {"before": f"{run.plain:.3f}", "after": f"{after:.3f}"}
    say("what_if.strongest", names=names, **values)
    entries = [(str(layer + 1), str(head + 1), "off", "") for layer, head in heads]
    st.button(t("what_if.use"), key="knock_use", on_click=_use, args=(joined(entries),))


def _use(written: str) -> None:
    st.session_state["edits"] = written


def _start() -> None:
    st.session_state[RUN].running = True


def _stop() -> None:
    st.session_state[RUN].running = False


def tables(model: str, text: str | Input, edits: Edits, aim: int | str, run: Run | None) -> dict[str, Table]:
    """Return the numbers of the page."""
    said = _said(model, text, edits, aim if isinstance(aim, int) else None)
    columns = [t("before_after.before"), t("before_after.after")]
    if said is not None:
        names, sides = [_visible(name) for name in said.labels], (said.before, said.after)
    else:
        meant = _meant(model, text, edits)
        names, sides = meant.sentences, (meant.before, meant.after)
    found = {t("what_if.outcome"): Table(names, columns, np.stack(sides, axis=1))}
    if run is not None and np.isfinite(run.effects).any():
        layers, heads = run.effects.shape
        rows = [t("what_if.layer", layer=n + 1) for n in range(layers)]
        found[t("what_if.effects")] = Table(rows, [str(n + 1) for n in range(heads)], run.effects)
    return found


def _grid(key: str, title: str, values: np.ndarray, chosen: tuple[int, int], *, signed: bool) -> None:
    at = chosen[0] * values.shape[1] + chosen[1]
    told = words("head_grid")
    meta = {"title": title, "chosen": at, "places": PLACES, "signed": signed, "words": told}
    head_grid(meta, values, key=f"grid-{key}", on_pick=lambda: _pick_head(f"grid-{key}", values.shape[1]))


def _pick_head(key: str, heads: int) -> None:
    at = st.session_state[key].picked
    st.session_state["layer"], st.session_state["head"] = at // heads + 1, at % heads + 1
    st.session_state[PICKED] = key == "grid-effects"


def _pick_aim(key: str, ids: tuple[int, ...]) -> None:
    st.session_state["aim"] = ids[st.session_state[key].picked]


def _pick_like(sentences: tuple[str, ...]) -> None:
    st.session_state["like"] = sentences[st.session_state["meant"].picked]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if share >= 0.001 or share == 0 else f"{100 * share:.2g}%"


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-", "−")


def _small(number: float) -> str:
    return "< 0.001" if 0 < number < 0.0005 else f"{abs(number):.3f}"


def _visible(token: str) -> str:
    return token.replace("\n", "↵") if token.strip() else f"“{token}”".replace("\n", "↵")


# Cached doors


@door
def _said(model: str, text: str | Input, edits: Edits, aim: int | None = None) -> "Said | None":
    from attention_core import what_if

    return compute.run(what_if.said, model, text, LIMIT, edits, aim)


@door
def _token(model: str, aim: int) -> str:
    return compute.run(lambda: compute._model(model).tokenizer.decode([aim]))


@door
def _lines(model: str, text: str | Input, edits: Edits, layer: int, head: int, query: int, key: int) -> str:
    from attention_core import what_if

    return compute.run(what_if.as_python, model, text, LIMIT, edits, layer, head, query, key)


@door
def _fills(model: str) -> bool:
    from attention_core import what_if

    return compute.run(what_if.fills, model)


@door
def _meant(model: str, text: str | Input, edits: Edits) -> "Meant":
    from attention_core import what_if

    for _ in range(compute.run(what_if.shelve, model, LIMIT)):  # a sentence a piece, so that nobody waits for all
        compute.run(what_if.shelve, model, LIMIT)
    return compute.run(what_if.meant, model, text, LIMIT, edits)


@door
def _moved(model: str, text: str | Input, edits: Edits, layer: int) -> np.ndarray:
    from attention_core import what_if

    return compute.run(what_if.moved, model, text, LIMIT, edits, layer)


@door
def _each(model: str, text: str | Input, aim: int | str, heads: tuple[tuple[int, int], ...]) -> np.ndarray:
    from attention_core import what_if

    return compute.run(what_if.outcomes, in_pieces(compute.run(what_if.without_each, model, text, LIMIT, aim, heads)))


@door
def _together(model: str, text: str | Input, aim: int | str, heads: tuple[tuple[int, int], ...]) -> float:
    from attention_core import what_if

    return compute.run(what_if.without_all, model, text, LIMIT, aim, heads)


@door
def _slopes(model: str, text: str | Input, aim: int | str) -> np.ndarray:
    from attention_core import what_if

    return compute.run(what_if.slopes, model, text, LIMIT, aim)


@door
def _looks(model: str, text: str | Input, word: int) -> np.ndarray:
    from attention_core import what_if

    return compute.run(what_if.looks, model, text, LIMIT, word)
