"""Take it away: what is shown as files for a slide, a spreadsheet, NumPy and a browser, and as lines of Python."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st

from attention_core import compute
from attention_core.models.catalogue import offered
from ui.components.picture_files import picture_files
from ui.components.standalone import Part, standalone
from ui.compute import LIMIT, head_view
from ui.lesson import theme
from ui.show import drawn_heat, drawn_links, drawn_row, focus
from ui.text import language, note, t, words

if TYPE_CHECKING:
    from attention_core.views import HeadView


def take_away(
    model: str,
    text: str,
    layer: int,
    views: "dict[int, HeadView]",
    *,
    show: str = "weights",
    log: bool = False,
    changes: tuple[bool, float, bool] = (True, 1.0, True),
    pane: str = "",
) -> None:
    """Offer what is shown of a head as files and as Python; made only when asked.

    Args:
        model: Its name.
        text: What was read.
        layer: From 0.
        views: By head, from 0, as they are shown: the first one is given away, the lines show all.
        show: What the map shows.
        log: Whether the map has logarithmic colours.
        changes: Of the formula: whether it is scaled, the temperature, and whether the mask is on.
        pane: The name of the pane, on a page that has several.
    """
    title = t("take_away.title") if not pane else f"{t('take_away.title')} · {pane}"
    place = st.expander(title, icon=":material/download:", key=f"take_away{pane}", on_change="rerun")
    if not place.open:
        return
    head, view = next(iter(views.items()))
    show = show if len(view.raw) else "weights"
    file = _file_name(model, layer, head)
    name = t("take_away.name", model=offered()[model], layer=layer + 1, head=head + 1)
    page = {"title": name, "text": text, "parts": _parts(views, show, log), "lang": language()}
    shown = t("take_away.map", show=t(f"controls.show_{show}"))
    pictures = [
        {"title": shown, "file": f"{file}-map", "svg": _map(view, show, name)},
        {"title": t("take_away.lines"), "file": f"{file}-lines", "svg": _lines(view, name)},
    ]
    asked = (model, text, LIMIT, layer, head)
    pair = focus(head_view(model, text, layer, head, "token", "shown"))  # in tokens, whatever is shown
    with place:
        left, right = st.columns(2, gap="large")
        with left:
            picture_files({"pictures": pictures, "words": words("picture_files")}, key=f"pictures{pane}")
        with right:
            _button("csv", pane, "text/csv", f"{file}.csv", lambda: _csv(view))
            _button("npz", pane, "application/octet-stream", f"{file}.npz", lambda: _npz(*asked, *changes))
            _button("html", pane, "text/html", f"{file}.html", lambda: standalone(**page).encode())
        note("take_away.python")
        st.code(compute.run(compute.lines, *asked, *pair, *changes), language="python")


def _button(kind: str, pane: str, mime: str, file: str, data: Callable[[], bytes]) -> None:
    label, about = t(f"take_away.{kind}"), t(f"take_away.{kind}_help")
    key = f"take_{kind}{pane}"
    st.download_button(label, data, file, mime, key=key, help=about, on_click="ignore", width="stretch")


def _csv(view: "HeadView") -> bytes:
    from attention_core.export import head_csv

    return head_csv(view).encode("utf-8-sig")


def _npz(*asked: object) -> bytes:
    return compute.run(compute.archive, *asked)


def _map(view: "HeadView", show: str, title: str) -> str:
    from figures.pictures import heatmap_svg

    scores = {"weights": view.weights, "raw": view.raw[:1].sum(0), "scaled": view.raw[:1].sum(0) * view.factor}[show]
    return heatmap_svg(scores, view.queries, view.keys, show=show, theme=theme(), title=title, allowed=view.allowed)


def _lines(view: "HeadView", title: str) -> str:
    from figures.pictures import links_svg

    return links_svg(view.weights, view.queries, view.keys, theme=theme(), title=title)


def _parts(views: "dict[int, HeadView]", show: str, log: bool) -> list[Part]:
    head, name = next(iter(views.values())), "file"
    pinned = focus(head)[0]
    return [
        Part(t("sentence.links"), "token_links", *drawn_links(views, view=name, pinned=pinned)),
        Part(t("sentence.heat"), "heatmap", *drawn_heat(head, show, view=name, log=log)),
        Part(t("take_away.row"), "row_in_full", *drawn_row(head, view=name)),
    ]


def _file_name(model: str, layer: int, head: int) -> str:
    return f"gaze-{re.sub(r'[^A-Za-z0-9.-]+', '-', model)}-layer-{layer + 1}-head-{head + 1}"
