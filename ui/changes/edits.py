"""What is changed in a model: edits as the link says them, the controls that write them, and what they lack."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from attention_core import compute
from attention_core.inputs import Input
from ui import controls, link
from ui.compute import LIMIT, door, head_view, reading
from ui.text import note, t

if TYPE_CHECKING:
    from attention_core.views import HeadView
    from attention_core.what_if import Told

INSTEAD = "The capital of Japan is"
ALL, AS_IS = "all", "as_is"
SCALES, NEAREST_ZERO, MOST_TEMPERATURE = (-2.0, 3.0), 1e-6, 1e9
Edits = tuple["Told", ...]


def other_box() -> str:
    """Ask for the sentence that weights are taken from, where an edit needs one."""
    if ".instead" not in st.session_state[link.CHOSEN].get("edits", ""):
        return INSTEAD
    return controls.sentence_box("instead", t("what_if.instead"), INSTEAD)


def edit_choice(model: str, text: str | Input, layer: int, head: int, other: str) -> Edits:
    """Ask what to do with the chosen head; show all edits, each with a way to take it back."""
    read = reading(model, text)
    first = f"{layer + 1}.{head + 1}.off"
    written = link.restore("edits", first, lambda said: _canonical(said, read.layers, read.heads))
    state, here = st.session_state, (model, text, layer, head, written)
    if state.get("_what_for") != here:  # the controls say what is told of the head that is chosen now
        state["_what_for"] = here
        scope, entry = _entry_of(written, layer, head)
        state["what"], state["what_scope"] = entry[2] if entry else AS_IS, scope
        state["what_to"] = entry[3] if entry else ""
    own = head_view(model, text, layer, head, "token", "shown")
    kinds = _kinds(own)
    if state["what"] not in kinds:
        kinds.append(state["what"])
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        change = {"on_change": _write, "args": (layer, head)}
        name = lambda kind: t(f"what_if.kind_{kind}")  # noqa: E731
        st.selectbox(t("what_if.what"), kinds, key="what", format_func=name, width=260, **change)
        scopes, scope = ("head", "layer", "model"), lambda one: t(f"what_if.scope_{one}")
        st.segmented_control(
            t("what_if.scope"),
            scopes,
            key="what_scope",
            format_func=scope,
            required=True,
            disabled=state["what"] == AS_IS,
            **change,
        )
        _parameter(model, text, state["what"], layer, head)
    _listed(written)
    told = _possible(_told(written, other), model, text, other)
    _zero_rows(model, text, told, layer, head)
    return told


def _kinds(own: "HeadView") -> list[str]:
    terms = dict(own.terms)
    kinds = [AS_IS, "off", "scale", "cut", "uniform", "key", "instead", "unscaled", "temperature"]
    return kinds + [
        kind for kind, term in (("unmasked", "causal"), ("unbiased", "bias"), ("wide", "window")) if term in terms
    ]


def _parameter(model: str, text: str | Input, kind: str, layer: int, head: int) -> None:
    """Ask for what the kind of edit needs, and keep it in ``what_to``."""
    state, to = st.session_state, st.session_state["what_to"]
    change = {"on_change": _write, "args": (layer, head)}
    if kind == "scale":
        _begin("what_scale", float, to, 0.5)
        st.slider(t("what_if.scale"), *SCALES, step=0.1, key="what_scale", width=260, **change)
    elif kind == "temperature":
        _begin("what_temperature", float, to, 4.0)
        st.number_input(
            t("what_if.temperature"),
            0.0,
            MOST_TEMPERATURE,
            step=0.5,
            format="%g",
            key="what_temperature",
            width=170,
            **change,
        )
        if state["what_temperature"] <= NEAREST_ZERO:
            note("what_if.zero", least=f"{NEAREST_ZERO:g}")
    elif kind == "key":
        names = words_of(model, text)
        _begin("what_key", _one_of(names), to, min(len(names) - 1, last_word(names) - 1))
        st.selectbox(
            t("what_if.key"), range(len(names)), key="what_key", format_func=lambda n: names[n], width=180, **change
        )
    elif kind == "cut":
        names = words_of(model, text)
        query, _, keys = to.partition("-")
        _begin("what_query", lambda said: said if said == ALL else _one_of(names)(said), query, last_word(names))
        _begin(
            "what_keys", lambda said: [_one_of(names)(n) for n in said.split("-")], keys, [max(0, last_word(names) - 1)]
        )
        queries = [ALL, *range(len(names))]
        named = lambda n: t("what_if.every") if n == ALL else names[n]  # noqa: E731
        st.selectbox(t("what_if.query"), queries, key="what_query", format_func=named, width=180, **change)
        keys = range(len(names))
        st.multiselect(t("what_if.keys"), keys, key="what_keys", format_func=lambda n: names[n], width=380, **change)


def _one_of(names: list[str]) -> Callable[[str], int]:
    return link.whole(0, len(names) - 1)


def _begin(key: str, parse: Callable[[str], object], to: str, default: object) -> None:
    """Give a control the value that the edit has, when the edit or the head is another one."""
    state, of = st.session_state, f"{key}_of"
    if key in state and state.get(of) == st.session_state["_what_for"]:
        return
    state[of] = st.session_state["_what_for"]
    try:
        state[key] = parse(to)
    except ValueError:
        state[key] = default


def _write(layer: int, head: int) -> None:
    """Write what the controls say of the chosen head into the edits."""
    state = st.session_state
    kind, scope = state["what"], state["what_scope"]
    entries = [e for e in _entries(state["edits"]) if not _is_of(e, layer, head)]
    if kind != AS_IS:
        to = {
            "scale": lambda: f"{state.get('what_scale', 0.5):g}",
            "temperature": lambda: f"{max(NEAREST_ZERO, state.get('what_temperature', 4.0)):g}",
            "key": lambda: str(state.get("what_key", 0)),
            "cut": lambda: "-".join(map(str, [state.get("what_query", ALL), *sorted(state.get("what_keys", [0]))])),
        }.get(kind, str)()
        place = {"head": (str(layer + 1), str(head + 1)), "layer": (str(layer + 1), ALL), "model": (ALL, ALL)}[scope]
        entries.append((*place, kind, to))
    state["edits"] = joined(entries)
    link.keep("edits", state["edits"])


def _listed(written: str) -> None:
    entries = _entries(written)
    if not entries:
        note("what_if.nothing")
        return
    with st.container(horizontal=True, gap="small"):
        for n, (layer, head, kind, to) in enumerate(entries):
            place = "model" if layer == ALL else "layer" if head == ALL else "head"
            where = t(f"what_if.of_{place}", layer=layer, head=head)
            to = f" {to}" if kind in ("scale", "temperature") else ""
            name = f"{where}: {t(f'what_if.kind_{kind}')}{to}"
            st.button(name, key=f"undo_{n}", icon=":material/close:", help=t("what_if.undo"), on_click=_undo, args=(n,))
        if len(entries) > 1:
            st.button(t("what_if.undo_all"), key="undo_all", type="tertiary", on_click=_undo, args=(None,))


def _undo(n: int | None) -> None:
    entries = _entries(st.session_state["edits"])
    st.session_state["edits"] = joined([] if n is None else entries[:n] + entries[n + 1 :])


def _entries(written: str) -> list[tuple[str, str, str, str]]:
    return [tuple([*part.split(".", 3), ""][:4]) for part in written.split("_") if part not in ("", "none")]


def joined(entries: list[tuple[str, str, str, str]]) -> str:
    """Write edits as the link says them."""
    return "_".join(".".join(entry).rstrip(".") for entry in entries) or "none"


def _is_of(entry: tuple[str, str, str, str], layer: int, head: int) -> bool:
    return entry[0] in (ALL, str(layer + 1)) and entry[1] in (ALL, str(head + 1))


def _entry_of(written: str, layer: int, head: int) -> tuple[str, tuple[str, str, str, str] | None]:
    """Return what is told of a head, the most particular first, and whom it is told of."""
    found = sorted(
        (e for e in _entries(written) if _is_of(e, layer, head)), key=lambda e: (e[0] == ALL) + (e[1] == ALL)
    )
    if not found:
        return "head", None
    return "model" if found[0][0] == ALL else "layer" if found[0][1] == ALL else "head", found[0]


def _canonical(said: str, layers: int, heads: int) -> str:
    from attention_core.what_if import KINDS

    for layer, head, kind, to in _entries(said):
        for one, most in ((layer, layers), (head, heads)):
            if one != ALL and not 1 <= int(one) <= most:
                raise ValueError(said)
        if kind not in KINDS or (layer == ALL) > (head == ALL):
            raise ValueError(said)
        if kind == "scale" and not SCALES[0] <= float(to) <= SCALES[1]:
            raise ValueError(said)
        if kind == "temperature" and not 0 < float(to) <= MOST_TEMPERATURE:
            raise ValueError(said)
        if kind == "key":
            int(to)
        if kind == "cut":
            query, *keys = to.split("-")
            [int(n) for n in (*([] if query == ALL else [query]), *(keys or ["none"]))]
    return joined(_entries(said))


def _told(written: str, other: str) -> Edits:
    from attention_core.what_if import Told

    number = lambda said: None if said == ALL else int(said) - 1  # noqa: E731
    return tuple(
        Told(number(layer), number(head), kind, other if kind == "instead" else to)
        for layer, head, kind, to in _entries(written)
    )


def _possible(told: Edits, model: str, text: str | Input, other: str) -> Edits:
    """Leave out, and say, what this sentence has no place for."""
    here, there = (len(reading(model, one).labels) for one in (text, other))
    names, left = words_of(model, text), []
    for one in told:
        if one.kind == "instead" and here != there:
            note("what_if.lengths", here=here, there=there)
        elif one.kind in ("key", "cut") and any(int(n) >= len(names) for n in one.to.split("-") if n != ALL):
            note("what_if.no_word", words=len(names))
        else:
            left.append(one)
    return tuple(left)


def _zero_rows(model: str, text: str | Input, told: Edits, layer: int, head: int) -> None:
    if any(one.kind == "cut" for one in told):
        view = edited_view(model, text, told, layer, head)
        empty = [view.queries[n] for n in np.flatnonzero(view.weights.sum(axis=1) == 0)]
        if empty:
            note("what_if.zero_row", words=", ".join(f"“{name.strip('·')}”" for name in empty))


def last_word(names: list[str]) -> int:
    """Return the number of the last word that somebody typed."""
    real = [n for n, name in enumerate(names) if not name.startswith("[")]
    return real[-1] if real else 0


def words_of(model: str, text: str | Input) -> list[str]:
    """Return the words of a text, special tokens among them."""
    return list(head_view(model, text, 0, 0, "word", "shown").keys)


@door
def edited_view(model: str, text: str | Input, edits: Edits, layer: int, head: int) -> "HeadView":
    """Compute a head of the edited model."""
    from attention_core import what_if

    return compute.run(what_if.view, model, text, LIMIT, edits, layer, head)
