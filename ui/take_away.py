"""Take it away: what is shown as files for a slide, a spreadsheet, NumPy and a browser, and as lines of Python."""

import re
from collections.abc import Sequence
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
    heads: Sequence[int],
    *,
    unit: str = "token",
    special: str = "shown",
    first: str = "shown",
    show: str = "weights",
) -> None:
    """Offer one head (the first of ``heads``; lines show all) as files and as Python; made only when asked.

    Args:
        model: Its name.
        text: What was read.
        layer: From 0.
        heads: From 0.
        unit: As it is shown.
        special: As it is shown.
        first: As it is shown.
        show: What the map shows.
    """
    place = st.expander(t("take_away.title"), icon=":material/download:", key="take_away", on_change="rerun")
    if not place.open:
        return
    views = {n: head_view(model, text, layer, n, unit, special, first != "hidden") for n in heads}
    head, view = heads[0], views[heads[0]]
    show = show if len(view.raw) else "weights"
    file = _file_name(model, layer, head)
    title = t("take_away.name", model=offered()[model], layer=layer + 1, head=head + 1)
    page = {"title": title, "text": text, "parts": _parts(views, head, show, first), "lang": language()}
    shown = t("take_away.map", show=t(f"controls.show_{show}"))
    pictures = [
        {"title": shown, "file": f"{file}-map", "svg": _map(view, show, title)},
        {"title": t("take_away.lines"), "file": f"{file}-lines", "svg": _lines(view, title)},
    ]
    with place:
        left, right = st.columns(2, gap="large")
        with left:
            picture_files({"pictures": pictures, "words": words("picture_files")}, key="pictures")
        with right:
            _button("csv", "text/csv", f"{file}.csv", lambda: _csv(view))
            _button("npz", "application/octet-stream", f"{file}.npz", lambda: _npz(model, text, layer, head))
            _button("html", "text/html", f"{file}.html", lambda: standalone(**page).encode())
        note("take_away.python")
        st.code(_python(model, text, layer, head), language="python")


def _button(kind: str, mime: str, file: str, data: object) -> None:
    label, about = t(f"take_away.{kind}"), t(f"take_away.{kind}_help")
    st.download_button(label, data, file, mime, key=f"take_{kind}", help=about, on_click="ignore", width="stretch")


def _csv(view: "HeadView") -> bytes:
    from attention_core.export import head_csv

    return head_csv(view).encode("utf-8-sig")


def _npz(model: str, text: str, layer: int, head: int) -> bytes:
    return compute.run(compute.archive, model, text, LIMIT, layer, head)


@st.cache_resource(max_entries=64, show_spinner=False)
def _python(model: str, text: str, layer: int, head: int) -> str:
    """The lines for the pair that the page looks at first; in tokens, whatever is shown."""
    view = head_view(model, text, layer, head, "token", "shown")
    return compute.run(compute.lines, model, text, LIMIT, layer, head, *focus(view))


def _map(view: "HeadView", show: str, title: str) -> str:
    from figures.pictures import heatmap_svg

    scores = {"weights": view.weights, "raw": view.raw[:1].sum(0), "scaled": view.raw[:1].sum(0) * view.factor}[show]
    return heatmap_svg(scores, view.queries, view.keys, show=show, theme=theme(), title=title, allowed=view.allowed)


def _lines(view: "HeadView", title: str) -> str:
    from figures.pictures import links_svg

    return links_svg(view.weights, view.queries, view.keys, theme=theme(), title=title)


def _parts(views: "dict[int, HeadView]", head: int, show: str, first: str) -> list[Part]:
    pinned, name = focus(views[head])[0], "file"
    return [
        Part(t("sentence.links"), "token_links", *drawn_links(views, view=name, pinned=pinned)),
        Part(t("sentence.heat"), "heatmap", *drawn_heat(views[head], show, view=name, log=first == "log")),
        Part(t("take_away.row"), "row_in_full", *drawn_row(views[head], view=name)),
    ]


def _file_name(model: str, layer: int, head: int) -> str:
    return f"gaze-{re.sub(r'[^A-Za-z0-9.-]+', '-', model)}-layer-{layer + 1}-head-{head + 1}"
