"""The page "Step by step": its controls, its cached doors, and the matrices of each stage."""

import math
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from attention_core import compute
from ui import link
from ui.components.matrices import matrices
from ui.compute import door
from ui.controls import EXAMPLE
from ui.lesson import Table
from ui.pick import pick
from ui.text import note, plain, t, words

if TYPE_CHECKING:
    from attention_core.labs.step_by_step import WalkView

STAGES = ("x", "q", "k", "v", "raw", "scaled", "weights", "context")
WORLDS = ("cake", "identity", "random", "equal")
NAMES = {"x": "X", "w_q": "W_Q", "w_k": "W_K", "w_v": "W_V", "q": "Q", "k": "K", "v": "V", "kt": "Kᵀ"}
FORMULAS = {"q": "Q = X · W_Q", "k": "K = X · W_K", "v": "V = X · W_V", "raw": "Q · Kᵀ"}
CHANGED = {"x": "x", "w_q": "wq", "w_k": "wk", "w_v": "wv"}  # matrix: its query parameter
SIGNS = {"x": "X", "q": "Q", "k": "K", "v": "V", "raw": "Q·Kᵀ", "scaled": "÷ √dₖ"}  # the same in every language
SHOWN = {  # each stage: how its last matrix comes about, and from which
    "x": ("single", ("x",)),
    "q": ("product", ("x", "w_q", "q")),
    "k": ("product", ("x", "w_k", "k")),
    "v": ("product", ("x", "w_v", "v")),
    "raw": ("product", ("q", "kt", "raw")),
    "scaled": ("scale", ("raw", "scaled")),
    "weights": ("softmax", ("scaled", "weights")),
    "context": ("product", ("weights", "v", "context")),
}
ALL = ("x", "w_q", "w_k", "w_v", "q", "k", "v", "raw", "scaled", "weights", "context")
LARGEST = 1e6
VIEW = "matrices"


def world_choice() -> str:
    """Ask for a small world; a new one drops the learner's changes."""
    real, afresh = link.restore("real", False, link.switch), tuple(CHANGED.values())
    return pick("step_by_step.world", WORLDS, "cake", disabled=real, on_change=link.forget, args=afresh)


def switches() -> tuple[bool, bool]:
    """Ask whether to show the real head, and whether scores are divided by √dₖ."""
    real = link.restore("real", False, link.switch)
    scaled = link.restore("divide", True, link.switch)
    st.toggle(t("step_by_step.divide"), key="divide", help=t("step_by_step.divide_help"))
    st.toggle(t("step_by_step.real"), key="real", help=t("step_by_step.real_help"), on_change=link.forget)
    return real, scaled


def stepper() -> str:
    """Ask for a stage: by its name, by two buttons, or by the arrow keys."""
    step = link.restore("step", STAGES[0], link.one_of(*STAGES))
    place = STAGES.index(step)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for name, shortcut, to in (("previous", "Left", place - 1), ("next", "Right", place + 1)):
            inside = 0 <= to < len(STAGES)
            st.button(
                t(f"step_by_step.{name}"),
                key=f"step_{name}",
                shortcut=shortcut,
                disabled=not inside,
                on_click=_turn,
                args=(STAGES[to] if inside else step,),
            )
        st.segmented_control(
            t("step_by_step.step"),
            STAGES,
            key="step",
            format_func=lambda stage: SIGNS.get(stage) or t(f"step_by_step.step_{stage}"),
            required=True,
            label_visibility="collapsed",
            width="content",
        )
    return step


def small_walk(text: str, world: str, scaled: bool) -> "WalkView":
    """Walk through the small world, with what the learner changed in it."""
    draw = link.restore("draw", 0, link.whole(0, 9999)) if world == "random" else 0
    sentence, cut = _words(text)
    if not sentence:
        note("step_by_step.unreadable")
        sentence, cut = _words(EXAMPLE)
    state = st.session_state
    if state.setdefault("_step_words", sentence) != sentence and "x" not in state[link.FRESH]:
        link.forget("x")  # the numbers of other words
    state["_step_words"] = sentence
    sizes = {"x": (len(sentence), 4)}
    changed = [
        link.restore(key, None, link.matrix(*sizes.get(key, (4, 4)), largest=LARGEST)) for key in CHANGED.values()
    ]
    return _small_world(sentence, cut, world, draw, tuple(_tuples(part) for part in changed), scaled)


def real_walk(text: str, scaled: bool) -> "WalkView":
    """Walk through the real head."""
    if compute.loaded("minilm"):
        return _real_head(text, scaled)
    with st.spinner(t("errors.loading", model="MiniLM")):
        return _real_head(text, scaled)


def stage(walk: "WalkView", step: str, *, world: str, real: bool, scaled: bool) -> None:
    """Say what happens in a stage, and show its matrices."""
    state = st.session_state
    text = t(f"step_by_step.{'real' if real else 'text'}_{step}")
    st.markdown(f"{text} {_remark_on_made(walk, step, world=world, real=real)}")
    state["_step_shown"] = {name: walk.arrays[name] for name in CHANGED}
    row, target = walk.focus
    kind, shown = SHOWN[step]
    arrays = walk.arrays | {"kt": np.ascontiguousarray(walk.arrays["k"].T)}
    row = target if step in "kv" else row
    column = target if step in ("raw", "scaled", "weights") else int(np.abs(arrays[step][row]).argmax())
    axes = _axes(walk, world=world, real=real)
    meta = {
        "view": VIEW,
        "param": "query",
        "pinned": _pin(walk),
        "queries": walk.words,
        "keys": walk.words,
        "stage": f"{step}-{'real' if real else 'small'}",
        "kind": kind,
        "matrices": [
            {
                "id": name,
                "name": _name(name),
                "rows": axes[name][0],
                "columns": axes[name][1],
                "colour": "weights" if name == "weights" else "scores",
                "edit": not real and name in CHANGED and name == (step if step == "x" else f"w_{step}"),
                "words": not name.startswith(("w_", "kt")),
                "cell": t(f"matrices.cell_{name}"),
            }
            for name in shown
        ],
        "inner": axes[shown[0]][1],
        "at": [row, column],
        "formula": FORMULAS.get(step, ""),
        "aside": _aside(walk, step, real),
        "scaling": f"÷ √{walk.size} = ÷ {math.sqrt(walk.size):.4g}" if scaled else "× 1",
        "move": step == "context",
        "refused": state.pop("_step_refused", None),
        "words": words("matrices"),
    }
    sent = {name: arrays[name] for name in shown} | {"targets": arrays["targets"]}
    if step in ("q", "k", "v") and real:
        sent["bias"] = arrays[f"b_{step}"]
    if step == "context":
        sent |= {"pulls": arrays["weights"]} | {name: arrays[name] for name in ("cosines", "places", "ends")}
    matrices(meta, sent, key=VIEW, on_edit=_edit)


def remarks(walk: "WalkView", *, world: str, real: bool) -> None:
    """Say what was left out and drawn at random; offer a new draw, and the way back from the learner's changes."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
        if world == "random" and not real:
            st.button(t("step_by_step.draw"), key="draw_again", on_click=_draw)
            note("step_by_step.draw_note", seed=link.restore("draw", 0, link.whole(0, 9999)))
        if not real and any(st.session_state.get(key) is not None for key in CHANGED.values()):
            st.button(t("step_by_step.reset"), key="reset", on_click=link.forget, args=tuple(CHANGED.values()))
    if walk.cut:
        room = len(walk.words)
        note(f"step_by_step.{'cut_real' if real else 'cut'}", room=room, cut=walk.cut)


def tables(walk: "WalkView", step: str, *, world: str, real: bool) -> dict[str, Table]:
    """Return the matrices with their names: all of a small world, those of this stage of the real head."""
    axes = _axes(walk, world=world, real=real)
    found = {}
    for name in [name.replace("kt", "k") for name in SHOWN[step][1]] if real else ALL:
        values = walk.arrays[name]
        rows, columns = (
            names or [str(n + 1) for n in range(size)] for names, size in zip(axes[name], values.shape, strict=True)
        )
        if name == "x" and real:  # 384 numbers a word are read downwards
            rows, columns, values = columns, rows, values.T
        found[_name(name) + ("ᵀ" if name == "x" and real else "")] = Table(rows, columns, values)
    return found


@door
def _words(text: str) -> tuple[tuple[str, ...], int]:
    return compute.run(_words_job, text)


@door
def _small_world(*args: object) -> "WalkView":
    return compute.run(_small_job, *args)


@door
def _real_head(text: str, scaled: bool) -> "WalkView":
    return compute.run(_real_job, text, scaled)


def _words_job(text: str) -> tuple[tuple[str, ...], int]:
    from attention_core.labs.step_by_step import split

    return split(text)


def _small_job(*args: object) -> "WalkView":
    from attention_core.labs.step_by_step import small_world  # in the compute thread: torch takes a second to import

    return small_world(*args)


def _real_job(text: str, scaled: bool) -> "WalkView":
    from attention_core.labs.step_by_step import real_head

    return real_head(text, scaled)


def _axes(walk: "WalkView", *, world: str, real: bool) -> dict[str, tuple[list[str], list[str]]]:
    """Return the names of each matrix's rows and columns; none where there are too many numbers to name."""
    people, plain = list(walk.words), ["1", "2", "3", "4"]
    features = [] if real else t("step_by_step.features").split("|")
    asked = [] if real else features if world == "identity" else t("step_by_step.asked").split("|")
    given = features
    if world == "random" and not real:
        asked = given = plain
    return {
        "x": (people, features),
        "w_q": (features, asked),
        "w_k": (features, asked),
        "w_v": (features, given),
        "q": (people, asked),
        "k": (people, asked),
        "kt": (asked, people),
        "v": (people, given),
        "raw": (people, people),
        "scaled": (people, people),
        "weights": (people, people),
        "context": (people, given),
    }


def _name(name: str) -> str:
    if name in NAMES:
        return NAMES[name]
    return t("step_by_step.context" if name == "context" else f"controls.show_{name}")


def _remark_on_made(walk: "WalkView", step: str, *, world: str, real: bool) -> str:
    """Say what the numbers made by hand mean, where they are what is shown."""
    if real or world not in ("cake", "equal"):
        return ""
    if step in ("q", "k") and st.session_state.get(CHANGED[f"w_{step}"]) is None:
        return t(f"step_by_step.made_{step}")
    word = walk.words[walk.focus[0]]
    if step == "x" and walk.arrays["x"][walk.focus[0]].tolist() == [0, 0, 0, 1]:
        return t("step_by_step.made_x", word=plain(word))
    return ""


def _aside(walk: "WalkView", step: str, real: bool) -> list[str]:
    if not real:
        return [t(f"step_by_step.aside_{step}")] if step == "x" or step in FORMULAS else []
    if step == "x":
        return [t("step_by_step.aside_real_x")]
    if step in ("q", "k", "v"):
        inner, outer = walk.arrays[f"w_{step}"].shape
        return [t("step_by_step.aside_real_w", inner=inner, outer=outer)]
    return [t("step_by_step.aside_raw")] if step == "raw" else []


def _pin(walk: "WalkView") -> int | None:
    said = st.query_params.get("query", "")
    return int(said) if said.isdecimal() and int(said) < len(walk.words) else None


def _tuples(values: np.ndarray | None) -> tuple[tuple[float, ...], ...] | None:
    return None if values is None else tuple(map(tuple, values.tolist()))


def _turn(step: str) -> None:
    st.session_state["step"] = step


def _draw() -> None:
    link.forget("wq", "wk", "wv")
    st.session_state["draw"] = (st.session_state["draw"] + 1) % 10000


def _edit() -> None:
    """Take one number that was typed; what is none, or too large, is refused and the old one stays."""
    state = st.session_state
    said = state[VIEW].edited
    try:
        value = float(str(said["text"]).strip().replace("−", "-").replace(",", "."))
        values = state["_step_shown"][said["matrix"]].astype(float)
        values[said["row"], said["column"]]  # raises where there is no such cell
        if not abs(value) <= LARGEST:
            raise ValueError(value)
    except (ValueError, KeyError, IndexError, TypeError):
        typed = said.get("text", "") if isinstance(said, dict) else said
        state["_step_refused"] = t("step_by_step.refused", typed=str(typed)[:40])
        return
    values[said["row"], said["column"]] = value
    state[CHANGED[said["matrix"]]] = np.array([float(f"{number:.6g}") for number in values.flat]).reshape(values.shape)
