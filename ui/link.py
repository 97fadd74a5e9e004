"""Every view is a link: each control's key is its query parameter, with stable ids as values, in any language.

Widgets take their values from the link when a visit begins and when the reader goes back in the browser's history;
after that from what the reader last chose, on whatever page. At the end of a page the link
is made to say what is shown.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import streamlit as st

from ui.components import page_address
from ui.text import note

V = TypeVar("V")
CHOSEN, PUBLISHED, SHOWN, FRESH, PAGE, MOVED = "_chosen", "_published", "_shown", "_fresh", "_page", "_moved"
NOTES, GONE, HELD = "_notes", "_gone", "_held"
LONG = 1500  # characters; a longer text travels packed, and one that is too long even so does not travel
TOO_LONG = 12000  # of all packed texts together
PACKED = "packed"  # the parameter of the packed text; of another one, with its key behind it
PRIVATE = ("_upload", "_find_run", "_find_row", "_long_file")  # of a reader's file, forgotten on every other page
MOST = 2_000_000  # bytes of text that a packed link may unfold to
IN_BROWSER = ("query",)  # written into the address by components, without the server


def begin(path: str) -> None:
    """Begin a run of a page: find out whether the link has the say (a new visit, or Back), or the reader's controls.

    What the link says counts as chosen from here on, so that a run that is interrupted loses nothing of it.
    """
    state = st.session_state
    state[MOVED] = state.get(PAGE) != path
    state[PAGE] = path
    if state[MOVED]:
        for key in PRIVATE:
            state.pop(key, None)
            state.get(CHOSEN, {}).pop(key, None)
    state[NOTES] = []
    chosen = state.setdefault(CHOSEN, {})
    state[FRESH] = set()
    link = _link()
    touched = any(key in state and _id(state[key]) != said for key, said in chosen.items())
    if PUBLISHED not in state or (link and link != state[PUBLISHED] and not touched):
        for key in {*state.get(SHOWN, {}), *link}:
            state.pop(key, None)
            chosen.pop(key, None)
        chosen |= link
        state[FRESH] = set(link)
        state[PUBLISHED] = link
    state[SHOWN] = {}


def restore(key: str, default: V, parse: Callable[[str], V]) -> V:
    """Give the widget with this key its value, before it is drawn.

    Args:
        key: The widget's key, which is its query parameter too.
        default: The value where nothing was chosen, or what was chosen does not exist.
        parse: Turns an id from the link into a value; raises ValueError for one that does not exist.

    Returns:
        The value, which the widget will have.
    """
    state = st.session_state
    told = said(key)
    value = default
    if told is not None:
        try:
            value = parse(told)
        except ValueError:
            if key in state[FRESH] and told:
                tell("link.unknown", key=key, value=told[:40])
    gone = state.setdefault(GONE, set())
    # A widget on another page is another widget, and so is one that a page which ended early did not draw.
    if state[MOVED] or key in gone or key not in state or _id(state[key]) != _id(value):
        state[key] = value
    gone.discard(key)
    keep(key, value)
    return value


def said(key: str) -> str | None:
    """Return what the link, or the control, says at the moment, whether or not it exists."""
    state = st.session_state
    return _id(state[key]) if key in state else state[CHOSEN].get(key)


def fresh(key: str) -> bool:
    """Return whether the link says so itself in this run: a visit begins, or the reader went back."""
    return key in st.session_state[FRESH]


def choose(values: dict[str, str]) -> None:
    """Choose for the reader, by ids, before the controls are drawn."""
    st.session_state[CHOSEN].update(values)


def published(*keys: str) -> dict[str, str]:
    """Return what the link of the last whole run said of some controls."""
    told = st.session_state.get(PUBLISHED, {})
    return {key: told[key] for key in keys if key in told}


def hold(*keys: str) -> None:
    """Name controls that are no part of the link, so that they too keep their values when the language changes."""
    st.session_state.setdefault(HELD, set()).update(keys)


def hold_all() -> None:
    """Keep the value of every control when the language changes: what a list sends is the name of the choice."""
    state = st.session_state
    for key in {*state.get(CHOSEN, ()), *state.get(HELD, ())} - {"lang"}:
        if key in state:
            state[key] = state[key]


def remind(*keys: str) -> None:
    """Give controls inside a popover their values again: the browser makes them only when it opens, long after."""
    for key in keys:
        if key in st.session_state:
            st.session_state[key] = st.session_state[key]


def pinned(queries: int) -> int | None:
    """Return the query, of so many, that the link pins; components in the browser write it there."""
    said = st.query_params.get("query", "")
    if said.isdecimal() and int(said) < queries:
        return int(said)
    if said:
        if st.session_state[MOVED]:
            tell("link.unknown", key="query", value=said[:40])
        st.query_params.pop("query")
    return None


def tell(key: str, /, **values: object) -> None:
    """Remark on the link, at the top of the page, where it moves no control."""
    place = st.session_state[NOTES]
    if isinstance(place, list):  # the top of the page is not drawn yet
        place.append((key, values))
        return
    with place:
        note(key, **values)


def notes() -> None:
    """Make room for remarks on the link."""
    waiting, st.session_state[NOTES] = st.session_state[NOTES], st.container()
    for key, values in waiting:
        tell(key, **values)


def keep(key: str, value: object) -> None:
    """Make a value part of the link."""
    st.session_state[CHOSEN][key] = _id(value)
    st.session_state[SHOWN][key] = value


def quiet(key: str) -> None:
    """Leave a value out of the link, where it is what everybody expects."""
    st.session_state[SHOWN].pop(key, None)


def forget(*keys: str) -> None:
    """Let controls fall back to their defaults, for instance those of another model."""
    for key in keys:
        st.session_state.pop(key, None)
        st.session_state[CHOSEN].pop(key, None)
    st.query_params.pop(IN_BROWSER[0], None)


def publish() -> None:
    """End a run: make the link say what the page shows."""
    state = st.session_state
    want = {key: _id(value) for key, value in state[SHOWN].items() if _id(value) != ""}
    room = TOO_LONG
    for key in [key for key, value in want.items() if len(value.encode(errors="replace")) > LONG]:
        packed = packed_text(want[key], room)
        if packed is None:
            tell("link.too_long")
            del want[key]
        else:
            room -= len(packed)
            want[_packed(key)] = packed
    state[PUBLISHED] = {key: value for key, value in want.items() if key in state[SHOWN]}
    want = {key: value for key, value in want.items() if _packed(key) not in want}
    now = st.query_params.to_dict()
    want |= {key: now[key] for key in IN_BROWSER if re.fullmatch(r"[0-9]{1,5}", now.get(key, ""))}
    if now != want:
        st.query_params.from_dict(want)
    page_address(state[PUBLISHED])


def stop() -> None:
    """End a run early, where an error leaves nothing to draw: controls that were not reached keep their values."""
    publish()
    state = st.session_state
    state[GONE] = set(state[CHOSEN]) - set(state[SHOWN])
    st.stop()


def packed_text(text: str, room: int = TOO_LONG) -> str | None:
    """Return a long text as it travels in a link; None where even so it has no room."""
    packed = base64.urlsafe_b64encode(zlib.compress(text.encode(errors="replace"), 9)).decode().rstrip("=")
    return packed if len(packed) <= room else None


def _packed(key: str) -> str:
    return PACKED if key == "text" else f"{PACKED}_{key}"


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a parser for whole numbers from ``low`` to ``high``."""

    def parse(said: str) -> int:
        if not re.fullmatch("-?[0-9]{1,18}", said) or not low <= int(said) <= high:
            raise ValueError(said)
        return int(said)

    return parse


def span(low: int, high: int) -> Callable[[str], tuple[int, int]]:
    """Return a parser for two whole numbers from ``low`` to ``high``, the smaller one first, written ``2-5``."""
    number = whole(low, high)

    def parse(said: str) -> tuple[int, int]:
        first, _, last = said.partition("-")
        if number(first) > number(last):
            raise ValueError(said)
        return number(first), number(last)

    return parse


def one_of(*choices: V) -> Callable[[str], V]:
    """Return a parser for one of some ids, which are words or numbers."""
    known = {str(choice): choice for choice in choices}

    def parse(said: str) -> V:
        if said not in known:
            raise ValueError(said)
        return known[said]

    return parse


def switch(said: str) -> bool:
    """Parse a switch: yes or no."""
    return one_of("yes", "no")(said) == "yes"


def some_of(low: int, high: int, most: int) -> Callable[[str], list[int]]:
    """Return a parser for at most ``most`` whole numbers, written ``2-5-7``; more are left out."""
    parse = whole(low, high)
    return lambda said: sorted({parse(part) for part in said.split("-")})[:most] if said else []


def matrix(rows: int, columns: int, largest: float = 1e6) -> Callable[[str], np.ndarray]:
    """Return a parser for a matrix of numbers, written row by row as ``1_0_-0.5_2``.

    Args:
        rows: How many rows it must have.
        columns: How many columns it must have.
        largest: Numbers beyond it, and those that are none (NaN, infinity), are refused.
    """

    def parse(said: str) -> np.ndarray:
        values = np.array([float(part) for part in said.split("_")])
        if values.size != rows * columns or not (np.abs(values) <= largest).all():
            raise ValueError(said)
        return values.reshape(rows, columns)

    return parse


def _link() -> dict[str, str]:
    said = {key: value for key, value in st.query_params.to_dict().items() if key not in IN_BROWSER}
    for name in [name for name in said if name == PACKED or name.startswith(f"{PACKED}_")]:
        packed, key = said.pop(name), name.removeprefix(PACKED).removeprefix("_") or "text"
        try:
            unpack = zlib.decompressobj()
            text = unpack.decompress(base64.b64decode(packed + "=" * (-len(packed) % 4), b"-_", validate=True), MOST)
            if not unpack.eof:
                raise ValueError("not whole")
            said[key] = text.decode()
        except (ValueError, zlib.error, binascii.Error):
            tell("link.damaged")
    return said


def _id(value: Any) -> str:  # noqa: ANN401 - whatever a widget has
    if isinstance(value, list | tuple):
        return "-".join(str(item) for item in value)
    if isinstance(value, np.ndarray):
        return "_".join(f"{number:.6g}" for number in value.flat)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
