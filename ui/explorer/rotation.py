"""Positions on the page "Sentence": a head's query and key before and after the model turns them."""

import math
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from attention_core import compute
from ui import link
from ui.compute import LIMIT, door, head_view
from ui.lesson import chart, look
from ui.show import factor_text, focus
from ui.text import heading, note, say, t

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from attention_core.rotary import Parts, Rotation
    from attention_core.views import HeadView

KEYS = ("rope_query", "rope_key", "rope_pair")


@door
def _turns(model: str) -> bool:
    return compute.run(compute.turns, model)


def _turn(model: str, text: str, layer: int, head: int) -> "Rotation | str":
    return compute.run(compute.turned, model, text, LIMIT, layer, head)


_turned = door(_turn, 64)  # each up to half a megabyte


def rotation(model: str, text: str, layer: int, head: int) -> None:
    """Show how a head's queries and keys (from 0) are turned by their positions, for a model that does so."""
    whole = head_view(model, text, layer, head, "token", "shown")
    if whole.only or not _turns(model):
        return
    here = (model, text, layer, head)
    if st.session_state.get("_rope", here) != here and not st.session_state[link.FRESH]:
        link.forget(*KEYS)  # another head: begin with the words that matter to it, unless a link says which
    st.session_state["_rope"] = here
    said = any(key in st.query_params for key in KEYS)
    place = st.expander(
        t("rotation.title"), icon=":material/rotate_left:", key="rotation", expanded=said, on_change="rerun"
    )
    if not place.open:
        return
    with place:
        turned = _turned(model, text, layer, head)
        if isinstance(turned, str):
            note(f"rotation.{turned}")
        elif len(whole.queries) < 2:
            note("rotation.alone")
        else:
            _show(turned, whole)


def _show(turned: "Rotation", view: "HeadView") -> None:
    say("rotation.intro")
    row = st.container(horizontal=True, gap="medium")
    query, key = _words(row, view)
    pair = _pair(row, turned.parts(query, key))
    ends = [side[turned.pairs[pair]] for side in _rows(turned, query, key)]
    names = view.queries[query].strip("·") or "·", view.keys[key].strip("·") or "·"
    names = names if names[0] != names[1] else (f"{names[0]} ({query})", f"{names[1]} ({key})")
    speed = float(turned.speeds[pair])
    _charts(ends, names, (query * speed, key * speed))
    for kind, word, at in zip(("query", "key"), names, (query, key), strict=True):
        turn = {"speed": f"{speed:.4g}", "turn": f"{at * speed:.4g}", "degrees": _degrees(at * speed)}
        say(f"rotation.{kind}", word=word, at=at, **turn)
    before, after = (_degrees(_between(*ends[n : n + 2])) for n in (0, 2))
    say("rotation.between", before=before, after=after, m=query, n=key, step=_degrees((query - key) * speed))
    _scores(turned, view, query, key, pair)


def _scores(turned: "Rotation", view: "HeadView", query: int, key: int, pair: int) -> None:
    from figures.rotation import parts as parts_chart

    parts = turned.parts(query, key)
    heading("rotation.parts")
    values = np.stack([parts.before, parts.after])
    names = t("rotation.without"), t("rotation.with")
    chart(parts_chart(values, names, chosen=pair, **look().style), "rotation-parts")
    say("rotation.one_pair", pair=pair + 1, before=_number(parts.before[pair]), after=_number(parts.after[pair]))
    raw = [float(part.sum()) + rest for part, rest in ((parts.before, parts.rest), (parts.after, parts.rest))]
    if 2 * len(turned.pairs) < view.size:
        still = view.size - 2 * len(turned.pairs)
        say("rotation.rest", features=still, size=view.size, rest=_number(parts.rest))
    say(
        "rotation.score",
        before=_number(raw[0]),
        after=_number(raw[1]),
        factor=factor_text(view),
        scaled_before=_number(raw[0] * view.factor),
        scaled_after=_number(raw[1] * view.factor),
    )
    if not math.isclose(turned.scale, 1, abs_tol=1e-4):
        note("rotation.scale", scale=f"{turned.scale:.4g}")
    if not view.allowed[query, key]:
        note("rotation.masked")
    note("rotation.seen")


def _words(row: "DeltaGenerator", view: "HeadView") -> tuple[int, int]:
    """Ask for a query and a key, by position from 0; at first the pinned query, or the one to look at first."""
    last = len(view.queries) - 1
    pinned = link.pinned(last + 1)
    query = link.restore("rope_query", focus(view)[0] if pinned is None else pinned, link.whole(0, last))
    others = view.weights[query].copy()
    others[query] = -1  # the two arrows of one position turn alike
    key = link.restore("rope_key", int(others.argmax()), link.whole(0, last))
    with row:
        st.slider(t("rotation.at_query"), 0, last, key="rope_query", width=220, on_change=link.forget, args=KEYS[1:])
        st.slider(t("rotation.at_key"), 0, last, key="rope_key", width=220, on_change=link.forget, args=KEYS[2:])
    return query, key


def _pair(row: "DeltaGenerator", parts: "Parts") -> int:
    """Ask for a pair of features, from 0; at first the one of which rotation changes most."""
    usual = int(np.abs(parts.after - parts.before).argmax()) + 1
    pair = link.restore("rope_pair", usual, link.whole(1, len(parts.after)))
    if len(parts.after) > 1:
        with row:
            st.slider(t("rotation.pair"), 1, len(parts.after), key="rope_pair", width=220, help=t("rotation.pair_help"))
    return pair - 1


def _rows(turned: "Rotation", query: int, key: int) -> tuple[np.ndarray, ...]:
    return turned.query_before[query], turned.key_before[key], turned.query_after[query], turned.key_after[key]


def _charts(ends: list[np.ndarray], names: tuple[str, str], turns: tuple[float, float]) -> None:
    from figures.rotation import arrows

    reach = max(float(np.hypot(*end)) for end in ends)
    left, right = st.columns(2, gap="large")
    with left:
        heading("rotation.before")
        chart(arrows(ends[0], ends[1], names, reach=reach, **look().style), "rotation-before")
    with right:
        heading("rotation.after")
        turned = tuple(zip(ends, turns, strict=False))
        chart(arrows(ends[2], ends[3], names, reach=reach, turned=turned, **look().style), "rotation-after")


def _between(query: np.ndarray, key: np.ndarray) -> float:
    """Return the angle from the key's arrow to the query's."""
    return math.atan2(key[0] * query[1] - key[1] * query[0], key[0] * query[0] + key[1] * query[1])


def _degrees(angle: float) -> str:
    degrees = math.degrees(angle)
    return f"{degrees:{'.1f' if abs(degrees) >= 1 else '.2g'}}°".replace("-", "−")


def _number(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")
