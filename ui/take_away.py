"""Take it away: what is shown as files for a slide, a spreadsheet, NumPy and a browser, and as lines of Python."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from attention_core import compute
from attention_core.inputs import KINDS, Input
from attention_core.models.catalogue import offered
from ui.components.picture_files import picture_files
from ui.components.standalone import Part, standalone
from ui.compute import LIMIT, head_view
from ui.formula import named
from ui.inputs import whole as all_of
from ui.inputs import written_out
from ui.lesson import theme
from ui.show import drawn_heat, drawn_links, drawn_row, focus, level, with_sink
from ui.text import language, note, t, words

if TYPE_CHECKING:
    from attention_core.views import HeadView


def take_away(
    model: str,
    text: str | Input,
    layer: int,
    views: "dict[int, HeadView]",
    *,
    show: str = "weights",
    log: bool = False,
    unit: str = "token",
    changes: tuple[tuple[str, ...], float] = ((), 1.0),
    pair: tuple[int, int] | None = None,
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
        unit: What the views show: "token" or "word".
        changes: Of the formula: the terms that are left out, and the temperature.
        pair: The query and the key that the page speaks of; without it, those to look at first.
        pane: The name of the pane, on a page that has several.
    """
    head, view = next(iter(views.items()))
    short = t("take_away.head", layer=layer + 1, head=head + 1)
    title = " · ".join([t("take_away.title"), *([pane] if pane else []), short])
    place = st.expander(title, icon=":material/download:", key=f"take_away{pane}", on_change="rerun")
    if not place.open:
        return
    show = show if len(view.raw) else "weights"
    kind = view.kind if view.kind in KINDS else ""
    stem = _file_name(model, layer, head, changes, pane) + (f"-{kind}" if kind else "")
    file = stem + ("-words" if unit == "word" else "")
    name = _title(model, f"{t(f'inputs.kind_{kind}')} · {short}" if kind else short, changes)
    whole = head_view(model, all_of(text), layer, head, unit, "shown", True, *changes)  # whatever is hidden on the page
    query, key = pair or focus(whole)
    parts = _parts(views, show, log, query if len(view.queries) == len(whole.queries) else focus(view)[0])
    page = {"title": name, "text": written_out(text), "parts": parts, "lang": language()}
    shown = t("take_away.map", show=t(f"controls.show_{show}"))
    scores = {"weights": view.weights, "raw": view.raw[:1].sum(0), "scaled": view.raw[:1].sum(0) * view.factor}[show]
    pictures = [
        {"title": shown, "file": f"{file}-map", "svg": _map(scores, view, show, name, log=log)},
        {"title": t("take_away.lines"), "file": f"{file}-lines", "svg": _lines(view, name)},
    ]
    asked = (model, all_of(text), LIMIT, layer, head)
    about = "csv_words_help" if not len(view.raw) else "csv_help"
    with place:
        left, right = st.columns(2, gap="large")
        with left:
            picture_files({"pictures": pictures, "words": words("picture_files")}, key=f"pictures{pane}")
        with right:
            _button("csv", pane, "text/csv", f"{file}.csv", lambda: _csv(view), about)
            _button("npz", pane, "application/octet-stream", f"{stem}.npz", lambda: _npz(*asked, *changes))
            _button("html", pane, "text/html", f"{file}.html", lambda: standalone(**page).encode())
        note("take_away.python")
        st.code(compute.run(compute.lines, *asked, query, key, *changes, unit), language="python")


def take_map(
    view: "HeadView",
    name: str,
    file: str,
    scores: np.ndarray | None = None,
    *,
    log: bool = False,
    page_of: str = "",
    python: Callable[[], str] | None = None,
) -> None:
    """Offer a map that is no single head's, or a head that was changed, as files; made only when asked.

    Args:
        view: Its labels and weights.
        name: What it is, in the reader's language.
        file: The files' name, without ending.
        scores: What to draw where it is no weights but differences, (Q, K), symmetric about 0.
        log: Whether it has logarithmic colours.
        page_of: The text, where a web page of it is to be had too, and its arrays.
        python: Makes the lines that compute one of its numbers again.
    """
    title = f"{t('take_away.title')} · {name}"
    place = st.expander(title, icon=":material/download:", key=f"take_{file}", on_change="rerun")
    if not place.open:
        return
    drawn, show = (view.weights, "weights") if scores is None else (scores, "raw")
    pictures = [{"title": name, "file": file, "svg": _map(drawn, view, show, name, log=log)}]
    if page_of:
        pictures.append({"title": t("take_away.lines"), "file": f"{file}-lines", "svg": _lines(view, name)})
    with place:
        left, right = st.columns(2, gap="large")
        with left:
            picture_files({"pictures": pictures, "words": words("picture_files")}, key=f"pictures-{file}")
        with right:
            table, number = replace(view, weights=drawn, raw=view.raw[:0]), "share" if scores is None else "difference"
            table = table if scores is None else replace(table, sink=np.zeros_like(view.sink))
            _button("csv", file, "text/csv", f"{file}.csv", lambda: _csv(table, number), "csv_map_help")
            if page_of:
                page = {"title": name, "text": page_of, "lang": language()}
                page["parts"] = _parts({0: view}, "weights", log, focus(view)[0])
                _button("npz", file, "application/octet-stream", f"{file}.npz", lambda: _arrays(view), "npz_map_help")
                _button("html", file, "text/html", f"{file}.html", lambda: standalone(**page).encode())
        if python:
            note("take_away.python")
            st.code(python(), language="python")


def _arrays(view: "HeadView") -> bytes:
    from attention_core.export import map_npz

    return map_npz(view)


def _title(model: str, short: str, changes: tuple[tuple[str, ...], float]) -> str:
    without, temperature = changes
    parts = [offered()[model], short]
    parts += [t("take_away.without", terms=named(without))] if without else []
    parts += [t("take_away.temperature", number=f"{temperature:g}")] if temperature != 1 else []
    return " · ".join(parts)


def _button(kind: str, pane: str, mime: str, file: str, data: Callable[[], bytes], about: str = "") -> None:
    label, key = t(f"take_away.{kind}"), f"take_{kind}{pane}"
    about = t(f"take_away.{about or f'{kind}_help'}")
    st.download_button(label, data, file, mime, key=key, help=about, on_click="ignore", width="stretch")


def _csv(view: "HeadView", number: str = "weight") -> bytes:
    from attention_core.export import head_csv

    return head_csv(view, number).encode("utf-8-sig")


def _npz(*asked: object) -> bytes:
    return compute.run(compute.archive, *asked)


def _map(scores: np.ndarray, view: "HeadView", show: str, title: str, *, log: bool) -> str:
    from figures.pictures import heatmap_svg

    style = {"show": show, "theme": theme(), "title": title, "log": log}
    keys, drawn = view.keys, {"weights": scores, "allowed": view.allowed}
    if show == "weights" and view.sink.any():
        keys, drawn = (*keys, t("show.sink_key")), with_sink(view, drawn)
    return heatmap_svg(drawn["weights"], view.queries, keys, allowed=drawn["allowed"], **style)


def _lines(view: "HeadView", title: str) -> str:
    from figures.pictures import links_svg

    return links_svg(view.weights, view.queries, view.keys, down=level(view), theme=theme(), title=title)


def _parts(views: "dict[int, HeadView]", show: str, log: bool, pinned: int | None) -> list[Part]:
    head, name = next(iter(views.values())), "file"
    return [
        Part(t("sentence.links"), "token_links", *drawn_links(views, view=name, pinned=pinned)),
        Part(t("sentence.heat"), "heatmap", *drawn_heat(head, show, view=name, log=log)),
        Part(t("take_away.row"), "row_in_full", *drawn_row(head, view=name)),
    ]


def _file_name(
    model: str, layer: int, head: int, changes: tuple[tuple[str, ...], float] = ((), 1.0), pane: str = ""
) -> str:
    without, temperature = changes
    parts = ["gaze", model, "layer", layer + 1, "head", head + 1, *(["pane", pane] if pane else [])]
    parts += ["without", *without] if without else []
    parts += ["temperature", f"{temperature:g}"] if temperature != 1 else []
    return re.sub(r"[^A-Za-z0-9.-]+", "-", "-".join(map(str, parts)))
