"""What is changed in a model: edits as the link says them, the controls that write them, and what they lack."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import streamlit as st

from attention_core import compute
from attention_core.inputs import Input
from ui import controls, link
from ui.compute import LIMIT, door, head_view, reading
from ui.text import note, shortened, t

if TYPE_CHECKING:
    from attention_core.views import HeadView
    from attention_core.what_if import Told

INSTEAD = "The capital of Japan is"
ALL, AS_IS = "all", "as_is"
SCOPES = ("head", "layer", "model")
SCALES, NEAREST_ZERO, MOST_TEMPERATURE = (-2.0, 3.0), 1e-6, 1e9
NUMBER = re.compile("[0-9]{1,6}")
Edits = tuple["Told", ...]
Place = tuple[str, str]  # layer and head as the link has them: from 1, or "all"
OF_MODELS, OF, AT, FOR = "_edits_of", "_edits_model", "_what_at", "_what_for"  # what the reader's visit knows
CONTROLS = ("what", "what_scale", "what_temperature", "what_key", "what_query", "what_keys")


class Entry(NamedTuple):
    """An edit as the link has it."""

    layer: str
    head: str
    kind: str
    to: str = ""

    @property
    def place(self) -> Place:
        """What is edited."""
        return self.layer, self.head

    @property
    def scope(self) -> str:
        """One of ``SCOPES``."""
        return "model" if self.layer == ALL else "layer" if self.head == ALL else "head"


def other_box() -> str:
    """Ask for the sentence that weights are taken from, where an edit needs one."""
    if ".instead" not in st.session_state[link.CHOSEN].get("edits", ""):
        return INSTEAD
    return controls.sentence_box("instead", t("what_if.instead"), INSTEAD)


def edit_choice(model: str, text: str | Input, layer: int, head: int, other: str) -> Edits:
    """Ask what to do with the chosen head, its layer or all heads; show all edits, each with a way to take it back."""
    read, state = reading(model, text), st.session_state
    _of_model(model)
    first = Entry(str(layer + 1), str(head + 1), "off")
    written = link.restore("edits", joined([first]), lambda said: _canonical(said, read.layers, read.heads))
    state[OF_MODELS][model] = written
    entries = _entries(written)
    scoped = control("what_scope", _place("head", layer, head))
    if state.get(AT) != (model, layer, head) or scoped not in state:
        state[AT] = (model, layer, head)
        state[scoped] = next((scope for scope in SCOPES if _entry(entries, _place(scope, layer, head))), SCOPES[0])
    place = _place(state[scoped], layer, head)
    entry, what = _entry(entries, place) or Entry(*place, AS_IS), control("what", place)
    link.hold(scoped, *(control(name, place) for name in CONTROLS))
    if state.get(FOR) != (model, text, place, written) or what not in state:  # the controls say what the edit says
        state[FOR] = (model, text, place, written)
        state[what] = entry.kind
    kinds = _kinds(head_view(model, text, layer, head, "token", "shown"))
    if state[what] not in kinds:
        kinds.append(state[what])
    names = words_of(model, text)
    change = {"on_change": _write_kind, "args": (place, last_word(names))}
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        scope = lambda one: t(f"what_if.scope_{one}")  # noqa: E731
        st.segmented_control(t("what_if.scope"), SCOPES, key=scoped, format_func=scope, required=True)
        name = lambda kind: t(f"what_if.kind_{kind}")  # noqa: E731
        st.selectbox(t("what_if.what"), kinds, key=what, format_func=name, width=260, **change)
        _parameter(place, state[what], entry.to, names)
    _covered(entries, place, layer, head)
    _listed(entries)
    told = _possible(_told(entries, other), model, text, other)
    _zero_rows(model, text, told, layer, head)
    return told


def control(name: str, place: Place) -> str:
    """Return a control's key. Each place has its own: what the browser still says of one head is never another's."""
    return f"{name}@{'.'.join(place)}"


def _of_model(model: str) -> None:
    """Edits are a model's own: another one has its own, and those of the one before are kept for its return."""
    state = st.session_state
    kept, before = state.setdefault(OF_MODELS, {}), state.get(OF, model)
    state[OF] = model
    if before != model and "edits" not in state[link.FRESH]:
        link.forget("edits")
        if model in kept:
            link.choose({"edits": kept[model]})


def _place(scope: str, layer: int, head: int) -> Place:
    return {"head": (str(layer + 1), str(head + 1)), "layer": (str(layer + 1), ALL), "model": (ALL, ALL)}[scope]


def _entry(entries: list[Entry], place: Place) -> Entry | None:
    return next((entry for entry in entries if entry.place == place), None)


def _covered(entries: list[Entry], place: Place, layer: int, head: int) -> None:
    """Say what holds for the chosen head where the controls speak of something else, or say nothing of it."""
    places = [_place(scope, layer, head) for scope in SCOPES]
    holds = next((entry for at in places if (entry := _entry(entries, at))), None)
    if holds and holds.place != place:
        note("what_if.holds", layer=layer + 1, head=head + 1, edit=_name(holds))


def _kinds(own: "HeadView") -> list[str]:
    terms = dict(own.terms)
    kinds = [AS_IS, "off", "scale", "cut", "uniform", "key", "instead", "unscaled", "temperature"]
    return kinds + [
        kind for kind, term in (("unmasked", "causal"), ("unbiased", "bias"), ("wide", "window")) if term in terms
    ]


def _parameter(place: Place, kind: str, to: str, names: list[str]) -> None:
    """Ask for what the kind of edit needs."""
    last, key = last_word(names), lambda name: control(f"what_{name}", place)
    change = {"on_change": _write_to, "args": (place,)}
    to = to or _usual(kind, last)
    named = lambda n: t("what_if.every") if n == ALL else names[n]  # noqa: E731
    word = link.whole(0, len(names) - 1)
    if kind == "scale":
        _begin(key("scale"), float, to, 0.5)
        st.slider(t("what_if.scale"), *SCALES, step=0.1, key=key("scale"), width=260, **change)
    elif kind == "temperature":
        _begin(key("temperature"), float, to, 4.0)
        about = {"step": 0.5, "format": "%g", "width": 170}
        st.number_input(t("what_if.temperature"), 0.0, MOST_TEMPERATURE, key=key("temperature"), **about, **change)
        if st.session_state[key("temperature")] <= NEAREST_ZERO:
            note("what_if.zero", least=f"{NEAREST_ZERO:g}")
    elif kind == "key":
        _begin(key("key"), word, to, max(0, last - 1))
        st.selectbox(t("what_if.key"), range(len(names)), key=key("key"), format_func=named, width=180, **change)
    elif kind == "cut":
        query, _, keys = to.partition("-")
        _begin(key("query"), lambda said: said if said == ALL else word(said), query, last)
        _begin(key("keys"), lambda said: [word(n) for n in said.split("-")], keys, [])
        queries, keys = [ALL, *range(len(names))], range(len(names))
        st.selectbox(t("what_if.query"), queries, key=key("query"), format_func=named, width=180, **change)
        st.multiselect(t("what_if.keys"), keys, key=key("keys"), format_func=named, width=380, **change)


def _usual(kind: str, last: int) -> str:
    """Return what an edit begins with that needs more than its kind."""
    before = max(0, last - 1)
    return {"scale": "0.5", "temperature": "4", "key": str(before), "cut": f"{last}-{before}"}.get(kind, "")


def _begin(key: str, parse: Callable[[str], object], to: str, default: object) -> None:
    """Give a control the value that the edit has, when it is another edit, or the control was away."""
    state, of = st.session_state, f"{key}_of"
    if key in state and state.get(of) == state[FOR]:
        return
    state[of] = state[FOR]
    try:
        state[key] = parse(to)
    except ValueError:
        state[key] = default


def _write_kind(place: Place, last: int) -> None:
    kind = st.session_state[control("what", place)]
    _write(place, None if kind == AS_IS else Entry(*place, kind, _usual(kind, last)))


def _write_to(place: Place) -> None:
    state, key = st.session_state, lambda name: control(f"what_{name}", place)
    kind = state[control("what", place)]
    if kind == "scale":
        to = f"{state[key('scale')]:g}"
    elif kind == "temperature":
        to = f"{max(NEAREST_ZERO, state[key('temperature')]):g}"
    elif kind == "key":
        to = str(state[key("key")])
    else:
        to = "-".join(map(str, [state[key("query")], *sorted(state[key("keys")])]))
    empty = kind == "cut" and not state[key("keys")]  # nothing is cut until a word is chosen again
    before = state[FOR]
    _write(place, None if empty else Entry(*place, kind, to))
    state[FOR] = (*before[:-1], state["edits"])  # the controls stay as they are
    for name in CONTROLS:
        if state.get(of := f"{control(name, place)}_of") == before:
            state[of] = state[FOR]


def _write(place: Place, new: Entry | None) -> None:
    """Write what is told of one place; what is told of others stays."""
    from attention_core.what_if import KINDS

    if new is not None and new.kind not in KINDS:
        return
    entries = _entries(st.session_state["edits"])
    if (old := _entry(entries, place)) and new:
        entries[entries.index(old)] = new
    elif old:
        entries.remove(old)
    elif new:
        entries.append(new)
    st.session_state["edits"] = joined(entries)
    link.keep("edits", st.session_state["edits"])


def _listed(entries: list[Entry]) -> None:
    if not entries:
        note("what_if.nothing")
        return
    with st.container(horizontal=True, gap="small"):
        for n, entry in enumerate(entries):
            help = t("what_if.undo")
            st.button(_name(entry), key=f"undo_{n}", icon=":material/close:", help=help, on_click=_undo, args=(n,))
        if len(entries) > 1:
            st.button(t("what_if.undo_all"), key="undo_all", type="tertiary", on_click=_undo, args=(None,))


def _name(entry: Entry) -> str:
    where = t(f"what_if.of_{entry.scope}", layer=entry.layer, head=entry.head)
    to = f" {entry.to}" if entry.kind in ("scale", "temperature") else ""
    return f"{where}: {t(f'what_if.kind_{entry.kind}')}{to}"


def _undo(n: int | None) -> None:
    entries = _entries(st.session_state["edits"])
    st.session_state["edits"] = joined([] if n is None else entries[:n] + entries[n + 1 :])


def _entries(written: str) -> list[Entry]:
    return [Entry(*[*part.split(".", 3), "", "", ""][:4]) for part in written.split("_") if part not in ("", "none")]


def joined(entries: Sequence[Entry]) -> str:
    """Write edits as the link says them."""
    return "_".join(".".join(entry).rstrip(".") for entry in entries) or "none"


def _canonical(said: str, layers: int, heads: int) -> str:
    """Return a link's edits in one way of writing; of two for the same place the last, and without those that are none.

    Raises:
        ValueError: If there are some, and none of them can be.
    """
    kept: dict[Place, Entry] = {}
    unknown = []
    for entry in _entries(said):
        try:
            one = _sound(entry, layers, heads)
            kept[one.place] = one
        except ValueError:
            unknown.append(joined([entry])[:40])
    if unknown and not kept:
        raise ValueError(said)
    for one in unknown:
        link.tell("what_if.no_edit", edit=one)
    return joined(list(kept.values()))


def _sound(entry: Entry, layers: int, heads: int) -> Entry:
    from attention_core.what_if import KINDS

    def number(said: str, low: int = 0, high: int = 10**6) -> str:
        if not NUMBER.fullmatch(said) or not low <= int(said) <= high:
            raise ValueError(said)
        return str(int(said))

    layer, head, kind, to = entry
    layer, head = (one if one == ALL else number(one, 1, most) for one, most in ((layer, layers), (head, heads)))
    if kind not in KINDS or (layer == ALL) > (head == ALL):
        raise ValueError(entry)
    if kind in ("scale", "temperature"):
        low, high = SCALES if kind == "scale" else (0, MOST_TEMPERATURE)
        value = float(to)
        if not low <= value <= high:
            raise ValueError(to)
        to = f"{value if kind == 'scale' else max(NEAREST_ZERO, value):g}"
    elif kind == "key":
        to = number(to)
    elif kind == "cut":
        query, *keys = to.split("-")
        query = query if query == ALL else number(query)
        to = "-".join([query, *sorted({number(key) for key in keys} or {number("")}, key=int)])
    else:
        to = ""
    return Entry(layer, head, kind, to)


def _told(entries: list[Entry], other: str) -> Edits:
    from attention_core.what_if import Told

    number = lambda said: None if said == ALL else int(said) - 1  # noqa: E731
    return tuple(
        Told(number(layer), number(head), kind, other if kind == "instead" else to) for layer, head, kind, to in entries
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
            named = ", ".join(f"“{name.strip('·')}”" for name in empty)
            note("what_if.zero_row", words=shortened(named, 120))


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
