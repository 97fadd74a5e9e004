"""How a text is read: with a second sentence or a target, special tokens, a chat template; and what is looked at."""

from typing import TYPE_CHECKING

import streamlit as st

from attention_core import compute
from attention_core.inputs import KINDS, MOST_WRITTEN, Input
from ui import link
from ui.compute import LIMIT, door, reading, ways
from ui.pick import pick
from ui.text import note, t

if TYPE_CHECKING:
    from attention_core.compute import Reading
    from attention_core.inputs import Can
    from attention_core.views import HeadView

LONGEST = 1000  # characters of a second sentence, so that it still travels in a link
OPEN = "_how_read_open"
SEGMENTS = {"all": "", "ab": "ab", "ba": "ba"}


def reading_choice(model: str, text: str) -> str | Input:
    """Ask how a text is read, where this model leaves a choice; gives the plain text where nothing was chosen."""
    can = ways(model)
    typed = [name for name in can.special if name in text]
    if not (can.pair or can.target or can.chat or typed):
        return text
    asked = Input(text)
    if can.target:
        of_a_kind = {"on_change": link.forget, "args": ("layer", "head", "also", "without")}
        asked = asked._replace(kind=pick("inputs.kind", KINDS, KINDS[0], **of_a_kind))
    if can.pair or can.target:
        asked = asked._replace(second=link.restore("second", "", _short).strip())
        typed += [name for name in can.special if name in asked.second and name not in typed]
    if typed:
        asked = asked._replace(special=_switch("special_tokens"))
    if can.chat:
        asked = asked._replace(chat=_switch("chat"))
    # The label stays: with another one it would be another popover, and a closed one.
    place = st.popover(t("inputs.title"), icon=":material/menu_book:", key="how_read", on_change="rerun")
    # Only when it opens: later, a box that is reminded of its value would lose what is being typed into it.
    if not (place.open and st.session_state.get(OPEN)):
        link.remind("second", "special_tokens", "chat")
    st.session_state[OPEN] = place.open
    if place.open:
        with place:
            _controls(can, typed)
    return text if asked == Input(text) else asked


def segments_choice(text: str | Input) -> str | Input:
    """Ask which part of a pair of sentences is shown; no choice where there is no pair."""
    if not _is_pair(text):
        return text
    return text._replace(between=SEGMENTS[pick("inputs.segments", SEGMENTS, "all", on_change=link.forget)])


def reading_notes(model: str, text: str | Input) -> None:
    """Say what was read besides the text, and how."""
    typed = [name for name in ways(model).special if name in "\n".join(_texts(text))]
    if typed:
        state = "special" if isinstance(text, Input) and text.special else "literal"
        note(f"inputs.{state}_note", tokens=" ".join(typed))
    if not isinstance(text, Input):
        return
    read = reading(model, text)
    if _is_pair(text):
        note("inputs.pair_note")
    if text.chat:
        note("inputs.chat_note", added=read.added)
    if text.kind in ("decoder", "cross"):
        _target_note(model, read)
    if text.kind:
        note(f"inputs.{text.kind}_note")


def encoder_note(model: str) -> None:
    """Say of an encoder-decoder model that a page shows one half of it."""
    if ways(model).target:
        note("inputs.only_encoder")


def shares_line(
    model: str, text: str | Input, layer: int, head: int, view: "HeadView", special: str, without: tuple[str, ...]
) -> None:
    """Say how much of each sentence's weight a head (from 0) puts on the other, and what the pictures show of it."""
    if not _is_pair(text):
        return
    (aa, ab, a0), (ba, bb, b0) = _shares(model, text._replace(between=""), layer, head, without)
    if ab == ab and ba == ba:  # NaN where the tokeniser leaves no words of a sentence
        numbers = {"aa": aa, "ab": ab, "a0": a0, "ba": ba, "bb": bb, "b0": b0}
        note("inputs.shares", **{name: f"{number:.2f}" for name, number in numbers.items()})
    if text.between and not view.between:
        note("inputs.no_words")
    elif view.between:
        shown = f"{view.weights.sum(axis=1).mean():.2f}"
        sides = {"near": view.between[0].upper(), "far": view.between[1].upper()}
        note(f"inputs.shown_{'rest' if special == 'renormalised' else 'part'}", shown=shown, **sides)


def params(text: str | Input) -> dict[str, str]:
    """Return the query parameters by which a link brings back what is read."""
    if not isinstance(text, Input):
        return {"text": text}
    told = {"text": text.text, "second": text.second, "kind": text.kind}
    told |= {"special_tokens": "yes" if text.special else "", "chat": "yes" if text.chat else ""}
    return {name: value for name, value in told.items() if value}


def written_out(text: str | Input) -> str:
    """Return what was typed, for a file that shows it."""
    return "\n".join(part for part in _texts(text) if part)


def whole(text: str | Input) -> str | Input:
    """Return the same with all of a pair shown."""
    return text._replace(between="") if isinstance(text, Input) else text


def suffix(text: str | Input) -> str:
    """Return what tells pictures with other tokens apart: a view's name is followed by it."""
    return "".join(f"-{part}" for part in (text.kind, text.between) if part) if isinstance(text, Input) else ""


def _switch(key: str) -> bool:
    on = link.restore(key, False, link.switch)
    if not on:
        link.quiet(key)
    return on


def _controls(can: "Can", typed: list[str]) -> None:
    if can.pair or can.target:
        side = "target" if can.target else "second"
        about = t(f"inputs.{side}_help" if can.writes or can.pair else "inputs.target_needed", most=MOST_WRITTEN)
        placeholder = t(f"inputs.{side}_example" if can.writes or can.pair else "inputs.target_missing")
        box = {"key": "second", "live": "300ms", "max_chars": LONGEST, "placeholder": placeholder, "help": about}
        st.text_input(t(f"inputs.{side}_box"), **box)
    if typed:
        about = t("inputs.special_help", tokens=" ".join(typed))
        st.toggle(t("inputs.special"), key="special_tokens", help=about, on_change=link.forget)
    if can.chat:
        st.toggle(t("inputs.chat"), key="chat", help=t("inputs.chat_help"), on_change=link.forget)


def _target_note(model: str, read: "Reading") -> None:
    told = {"target": read.target_text or " ".join(read.target[1:]), "tokens": len(read.target) - 1}
    if told["tokens"]:
        note("inputs.written_note" if read.written else "inputs.typed_note", most=MOST_WRITTEN, **told)
    else:
        note("inputs.start_note" if ways(model).writes else "inputs.silent_note", start=read.target[0])
    note("inputs.fed_note", start=read.target[0])


def _is_pair(text: str | Input) -> bool:
    return isinstance(text, Input) and bool(text.second) and not (text.kind or text.chat)


def _texts(text: str | Input) -> tuple[str, ...]:
    return (text.text, text.second) if isinstance(text, Input) else (text,)


def _short(said: str) -> str:
    return said[:LONGEST]


@door
def _shares(model: str, text: Input, layer: int, head: int, without: tuple[str, ...]) -> list[list[float]]:
    from attention_core.pairs import shares

    return compute.run(shares, model, text, LIMIT, layer, head, without)
