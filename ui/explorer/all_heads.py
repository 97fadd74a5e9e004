"""The page "All heads": every head of a model on one wall, with its numbers, and one of them large."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import streamlit as st

from attention_core import compute
from attention_core.inputs import Input
from attention_core.models.catalogue import offered
from ui import link
from ui.components.head_wall import Wall, head_wall, wall_of
from ui.compute import LIMIT, door, head_view, reading
from ui.controls import BEST_HEAD, FIRST_HEAD
from ui.inputs import params, written_out
from ui.layers import layer_line
from ui.lesson import Table
from ui.pick import pick
from ui.show import apart, few, mention, sink_line
from ui.text import language, note, plain, say, shortened, t, words

if TYPE_CHECKING:
    from attention_core.statistics import Measured, Survey
    from attention_core.views import HeadView

BY_LAYER = "layer"
MOST_WALLS = 48
# Okabe-Ito; None is the text's own colour, as black is in the original, and a number a grey.
COLOURS = {
    "previous": "#0072b2",
    "same": None,
    "next": "#56b4e9",
    "first": "#e69f00",
    "separator": "#d55e00",
    "punctuation": "#cc79a7",
    "induction": "#009e73",
    "duplicate": "#f0e442",
    "broad": 0.62,
    "mixed": 0.4,
}
PLACES = {"distance": 1}  # decimals; all others have two


class Seen(NamedTuple):
    """All heads of a model on a text."""

    survey: "Survey"
    wall: Wall


class Shown(NamedTuple):
    """What the reader wants to see of the wall: flat numbers of heads, in order."""

    heads: tuple[int, ...]
    order: str
    coloured: bool


def all_heads(model: str, text: str | Input) -> Seen:
    """Measure every head; once for everyone."""
    read = reading(model, text)
    with st.spinner(t("all_heads.measuring", heads=read.layers * read.heads)):
        return _measured(model, text)


def order_choice(seen: Seen) -> str:
    """Ask for the order: by layer, or by a statistic. The button says by layer where no head has a number for it."""
    from attention_core.statistics import STATISTICS

    orders = (BY_LAYER, *STATISTICS)
    order = link.restore("wall_order", BY_LAYER, link.one_of(*orders))
    link.remind("wall_order")
    missing = order != BY_LAYER and np.isnan(seen.survey.values[STATISTICS.index(order)]).all()
    with st.popover(t("all_heads.order", name=_order_name(BY_LAYER if missing else order))):
        st.pills(t("all_heads.order_by"), orders, key="wall_order", format_func=_order_name, required=True)
        if order != BY_LAYER:
            st.caption(_definition(order))
    return order


def shown_choice(seen: Seen, order: str) -> Shown:
    """Ask which layers and roles to show, and in which colours."""
    from attention_core.statistics import ROLES, STATISTICS

    layers, heads = seen.survey.roles.shape
    if st.session_state.get("_wall_layers", layers) != layers:  # another model
        link.forget("wall_layers")
    st.session_state["_wall_layers"] = layers
    low, high = link.restore("wall_layers", (1, layers), _span(layers))
    roles = link.restore("wall_roles", [], _roles)
    counts = _counts(seen)
    offered = [role for role in ROLES if counts[role] or role in roles]
    whole = (low, high) == (1, layers) and not roles
    link.remind("wall_layers", "wall_roles")
    with st.popover(t("all_heads.everything") if whole else t("all_heads.some")):
        if layers > 1:
            st.slider(t("all_heads.layers"), 1, layers, key="wall_layers", width=280)
        st.pills(
            t("all_heads.roles"),
            offered,
            key="wall_roles",
            selection_mode="multi",
            format_func=lambda role: f"{t(f'roles.{role}')} · {counts[role]}",
            help=t("all_heads.roles_help"),
        )
    colour = pick("all_heads.colour", ("role", "plain"), "role", key="wall_colour")

    inside = np.zeros((layers, heads), dtype=bool)
    inside[low - 1 : high] = True
    if roles:
        inside &= np.isin(seen.survey.roles, [ROLES.index(role) for role in roles])
    numbers = np.flatnonzero(inside)
    if order != BY_LAYER:
        by = seen.survey.values[STATISTICS.index(order)].ravel()[numbers]
        numbers = numbers[np.argsort(-by, kind="stable")]  # the largest first; those that have none come last
        if np.isnan(seen.survey.values[STATISTICS.index(order)]).all():
            order = BY_LAYER
            st.session_state["_wall_no_order"] = True
    return Shown(tuple(numbers.tolist()), order, colour == "role")


def wall(model: str, text: str, seen: Seen, shown: Shown) -> tuple[int, int]:
    """Draw the wall, and give the layer and the head that are chosen, from 0."""
    from attention_core.statistics import ROLES, STATISTICS

    layers, heads = seen.survey.roles.shape
    usual = BEST_HEAD.get(model, FIRST_HEAD)
    layer = link.restore("layer", usual[0], link.whole(1, layers))
    head = link.restore("head", usual[1], link.whole(1, heads))
    if st.session_state.pop("_wall_no_order", False):
        note("all_heads.no_order", name=_order_name(st.session_state["wall_order"]))
    if not shown.heads:
        note("all_heads.nothing")
    counts = _counts(seen)
    meta = {
        "shape": [layers, heads],
        "chosen": [layer - 1, head - 1],
        "shown": shown.heads,
        "flow": shown.order != BY_LAYER,
        "order": None if shown.order == BY_LAYER else STATISTICS.index(shown.order),
        "colours": [COLOURS[role] for role in ROLES] if shown.coloured else None,
        "legend": [n for n, role in enumerate(ROLES) if counts[role]],
        "counts": [counts[role] for role in ROLES],
        "roles": [t(f"roles.{role}") for role in ROLES],
        "statistics": [t(f"statistics.{name}") for name in STATISTICS],
        "places": [PLACES.get(name, 2) for name in STATISTICS],
        "heading": f"{offered()[model]} · {shortened(written_out(text), 60)}",
        "words": words("head_wall"),
    }
    head_wall(seen.wall, meta, key="wall", on_pick=_pick)
    return layer - 1, head - 1


def about(model: str, text: str | Input, seen: Seen, layer: int, head: int) -> None:
    """Say which head is shown large, and what its role is."""
    from attention_core.statistics import ON_REPEATED, ROLES, STATISTICS

    role, evidence = ROLES[seen.survey.roles[layer, head]], seen.survey.evidence[layer, head]
    st.markdown(f"##### {t('all_heads.head', layer=layer + 1, head=head + 1)}")
    even = seen.survey.even[STATISTICS.index(role), layer] if role in STATISTICS else None
    view = head_view(model, text, layer, head, "token", "shown")
    if role == "mixed":
        _mixed(seen.survey, layer, head)
    else:
        kind = "broad" if role == "broad" else "repeated" if role in ON_REPEATED else "role"
        even = "–" if even is None else few(even)
        say(f"all_heads.is_{kind}", role=t(f"roles.{role}"), evidence=f"{evidence:.2f}", even=even)
    _column(view, role)
    layer_line(model, text, layer)
    if view.sink.any():
        sink_line(view)
        note("all_heads.sink")
    st.page_link(
        "pages/sentence.py",
        label=t("all_heads.open"),
        icon=":material/open_in_new:",
        query_params={
            **params(text),
            "model": model,
            "layer": str(layer + 1),
            "head": str(head + 1),
            "lang": language(),
        },
    )


def _mixed(survey: "Survey", layer: int, head: int) -> None:
    """Say which role comes nearest, and what it lacks."""
    from attention_core.statistics import CLEARLY, HALF, SHARES, STATISTICS

    places = [STATISTICS.index(name) for name in SHARES]
    values, even = survey.values[places, layer, head], survey.even[places, layer]
    said = {"role": t("roles.mixed"), "count": len(SHARES)}
    if np.isnan(values).all():
        say("all_heads.is_mixed_none", **said)
        return
    nearest = int(np.nanargmax(values))
    lacks = "half" if values[nearest] < HALF else "even"
    share, _ = apart(values[nearest], HALF if lacks == "half" else CLEARLY * even[nearest])
    said |= {"evidence": share, "place": t(f"roles.{SHARES[nearest]}"), "even": few(even[nearest])}
    say(f"all_heads.is_mixed_{lacks}", **said, half=f"{HALF:.0%}", clearly=f"{CLEARLY:g}")


def _column(view: "HeadView", role: str) -> None:
    """Say which token gets most of the weight, where one does and the role has not said it already."""
    from attention_core.statistics import HALF

    shares = view.weights.mean(axis=0)
    at = int(shares.argmax())
    if len(view.keys) > 1 and shares[at] > HALF and not (role == "first" and at == 0):
        say("all_heads.column", key=mention(view.keys, at), share=apart(shares[at], HALF)[0])


def definitions() -> None:
    """Define every statistic in a line, and the rule for roles."""
    from attention_core.statistics import BROAD, CLEARLY, HALF, SHARES, STATISTICS

    with st.expander(t("all_heads.meaning")):
        st.markdown("\n".join(f"- **{t(f'statistics.{name}')}**: {_definition(name)}" for name in STATISTICS))
        say(
            "all_heads.rule",
            half=f"{HALF:.0%}",
            clearly=f"{CLEARLY:.0f}",
            broad=f"{BROAD:.0%}",
            order=" → ".join(t(f"roles.{name}") for name in SHARES),
        )


def tables(seen: Seen) -> dict[str, Table]:
    """Return every number of every head."""
    from attention_core.statistics import ROLES, STATISTICS

    layers, heads = seen.survey.roles.shape
    names = [
        f"{t('all_heads.head', layer=layer + 1, head=head + 1)} · {t(f'roles.{ROLES[seen.survey.roles[layer, head]]}')}"
        for layer in range(layers)
        for head in range(heads)
    ]
    columns = [*(t(f"statistics.{name}") for name in STATISTICS), t("all_heads.evidence")]
    values = np.concatenate([seen.survey.values, seen.survey.evidence[None]]).reshape(len(columns), -1).T
    return {t("all_heads.table"): Table(names, columns, values)}


def _measure(model: str, text: str | Input) -> Seen:
    from attention_core.statistics import join, judge, piece, pieces

    read = reading(model, text)
    spans = pieces(read.heads, read.longest)
    parts = [[compute.run(piece, model, text, LIMIT, layer, span) for span in spans] for layer in range(read.layers)]
    layers = [join(layer) for layer in parts]
    survey = judge(layers, _repeated(model, read.layers, getattr(text, "kind", "")))
    pictures = np.stack([layer.pictures.numpy() for layer in layers])
    return Seen(survey, wall_of(pictures, survey.values, survey.roles, survey.evidence))


_measured = door(_measure, MOST_WALLS)


@door
def _repeated(model: str, layers: int, kind: str) -> "list[Measured]":
    from attention_core.statistics import repeated_piece

    return [compute.run(repeated_piece, model, layer, kind) for layer in range(layers)]


def _counts(seen: Seen) -> dict[str, int]:
    from attention_core.statistics import ROLES

    return {role: int((seen.survey.roles == n).sum()) for n, role in enumerate(ROLES)}


def _order_name(order: str) -> str:
    return t("all_heads.by_layer") if order == BY_LAYER else t(f"statistics.{order}")


def _definition(name: str) -> str:
    from attention_core.statistics import REPEAT

    return t(f"statistics.{name}_is", length=plain(REPEAT)) if name == "induction" else t(f"statistics.{name}_is")


def _span(layers: int) -> Callable[[str], tuple[int, int]]:
    whole = link.whole(1, layers)

    def parse(said: str) -> tuple[int, int]:
        low, high = said.split("-")
        if whole(low) > whole(high):
            raise ValueError(said)
        return whole(low), whole(high)

    return parse


def _roles(said: str) -> list[str]:
    from attention_core.statistics import ROLES

    one = link.one_of(*ROLES)
    return [one(role) for role in said.split("-")] if said else []


def _pick() -> None:
    layer, head = st.session_state["wall"].picked
    st.session_state["layer"], st.session_state["head"] = layer + 1, head + 1
