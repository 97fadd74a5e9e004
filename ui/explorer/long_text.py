"""The page "Long text": a text of thousands of tokens goes through a model, and one head's map of it is drawn."""

import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from attention_core import long_text as jobs
from attention_core.errors import ModelError
from attention_core.long_text import Gone, LongMap, LongReading, Region
from attention_core.models.catalogue import offered
from attention_core.settings import settings
from ui import link
from ui.components import head_strip
from ui.components.long_map import long_map
from ui.compute import door, failed
from ui.controls import BEST_HEAD, FIRST_HEAD
from ui.explorer.long_file import KINDS, MOST_LETTERS, FileText, read_text
from ui.explorer.upload import FileRefusedError
from ui.pick import pick
from ui.take_away import take_map
from ui.text import note, plain, shortened, t, words

if TYPE_CHECKING:
    from attention_core.views import HeadView

SAMPLE = Path(__file__).parents[2] / "assets" / "texts" / "lighthouse.txt"
FROM = ("box", "file")
RUN, FILE, LAST, SHOWN, BACK, OF = "_long_run", "_long_file", "_last_passage", "_long_shown", "_long_back", "_long_of"
TICK, PIECE = 0.4, 0.35  # seconds: a third of a second of work, then the page is drawn
STRONGEST = 12
LEAST = 0.001  # a weight below it is not written out in the list
ISOLATE = "\u2068{}\u2069"  # so that a text from right to left leaves the rest of its line in order
AXES = ("long_queries", "long_keys")
OF_A_TEXT = (*AXES, "tile")
WAITING = (*OF_A_TEXT, "long_first", "head")
LIMIT = min(settings().max_long_tokens, jobs.MOST_TOKENS)


@partial(door, most=16)
def _begin(model: str, text: str) -> LongReading:
    return jobs.begin(model, text, LIMIT)


@partial(door, most=64)  # up to a third of a megabyte each
def _map(name: str, layer: int, head: int, region: Region) -> LongMap:
    return jobs.region_map(name, layer, head, region)


@partial(door, most=64)
def _small(name: str, layer: int, heads: int, region: Region) -> np.ndarray:
    return jobs.small_maps(name, layer, heads, region)


@door
def _first_share(name: str, layer: int, head: int, low: int, high: int) -> float:
    found = jobs.region_map(name, layer, head, Region(low, high, 0, 1), 1)
    return float(found.weights[0, 0])


def text_choice() -> str:
    """Ask for a text, typed or from a file; where there is none that can be used, the last one, or the sample."""
    state = st.session_state
    if pick("long_text.long_from", FROM, FROM[0]) == "file":
        return _from_file() or state.get(LAST) or sample()
    text = link.restore("passage", sample(), str)
    if text == sample():
        link.quiet("passage")  # everybody has it
    st.text_area(t("long_text.passage"), key="passage", height=150)
    if len(text) > MOST_LETTERS:
        st.warning(t("long_text.characters", most=f"{MOST_LETTERS:,}", all=f"{len(text):,}"))
    text = text[:MOST_LETTERS]
    if text.strip():
        state[LAST] = text
        return text
    note("controls.blank")
    link.keep("passage", state.get(LAST, sample()))
    return state.get(LAST, sample())


def _from_file() -> str | None:
    state = st.session_state
    if settings().public:
        note("upload.public")
        return None
    file = st.file_uploader(
        t("long_text.file", most=settings().max_upload_mb), KINDS, key="long_file", help=t("long_text.file_help")
    )
    if file is None:
        note("long_text.no_file")
        return None
    if state.get(FILE, (None,))[0] != file.file_id:  # read once, not in every run
        with st.spinner(t("long_text.opening")):
            try:
                state[FILE] = (file.file_id, read_text(file.name, file.getvalue()))
            except FileRefusedError as error:
                state[FILE] = (file.file_id, error)
    found: FileText | FileRefusedError = state[FILE][1]
    if isinstance(found, FileRefusedError):
        st.error(t(f"long_file.{found.reason}", **{name: plain(value) for name, value in found.places.items()}))
        return None
    note("long_text.from_file")
    if found.read < found.pages:
        st.warning(t("long_text.pages", read=found.read, all=found.pages))
    elif found.characters > len(found.text):
        st.warning(t("long_text.characters", most=f"{MOST_LETTERS:,}", all=f"{found.characters:,}"))
    return found.text


def begin(model: str, text: str) -> LongReading:
    """Cut a text into tokens, and say how many there are and what did not fit."""
    with st.spinner(t("long_text.cutting")):
        read = _begin(model, text)
    state = st.session_state
    if state.get(OF, read.name) != read.name:
        link.forget(*(key for key in OF_A_TEXT if not link.fresh(key)))
        state.pop(BACK, None)
    state[OF] = read.name
    note("long_text.count", tokens=f"{read.tokens:,}", characters=f"{len(read.text):,}")
    if read.cut:
        numbers = {"limit": f"{read.limit:,}", "cut": f"{read.cut:,}", "model": plain(offered()[model])}
        st.warning(t(f"long_text.cut_{read.bound}", **numbers))
    if read.half:
        note("inputs.only_encoder")
    return read


def go_through(model: str, text: str, read: LongReading, layer: int) -> None:
    """Send the text through the model, with a bar that can be stopped; the page ends here until this layer is there."""
    state, at = st.session_state, jobs.progress(read.name)
    if at is None and state.get(RUN, ("",))[0] != read.name:  # known from before, and no longer kept: begin anew
        jobs.begin(model, text, LIMIT)
        at = jobs.progress(read.name)
    if state.get(RUN, ("",))[0] != read.name:
        state[RUN] = (read.name, True)
    there, ended = at is not None and layer in at.kept, at is not None and at.done >= at.layers
    running = state[RUN][1] and at is not None and not ended
    gone = at is None or (ended and not there)
    if gone:
        st.info(t("long_text.gone_text" if at is None else "long_text.gone_layer", layer=layer + 1))
    with st.container(horizontal=True, gap="small"):
        if gone:
            st.button(t("long_text.again"), key="long_again", type="primary", on_click=_again, args=(model, text))
        elif not ended:
            label = "long_text.stop" if running else "long_text.go_on"
            st.button(t(label), key="long_switch", on_click=_switch, args=(read.name, not running))
    if at is not None and not (gone and ended):
        st.fragment(_advance, run_every=TICK if running else None)(read.name, layer, running, there)
    if not there:
        for key in WAITING:  # what the page would show stays in the link meanwhile
            if said := link.said(key):
                link.keep(key, said)
        link.stop()


def _advance(name: str, layer: int, running: bool, there: bool) -> None:
    """Draw how far it is; while it runs, each tick takes it further."""
    state, until = st.session_state, time.monotonic() + PIECE
    at = jobs.progress(name)
    try:
        while running and at is not None and at.done < at.layers and time.monotonic() < until:
            at = jobs.step(name, layer)
    except Gone:
        at = None
    except ModelError as error:
        state[RUN] = (name, False)
        failed(error)
        return
    if at is not None:
        numbers = {"done": at.done, "layers": at.layers, "seconds": f"{at.seconds:.1f}"}
        st.progress(at.done / at.layers, t("long_text.progress", **numbers))
    if running and (at is None or at.done >= at.layers or (layer in at.kept) != there):
        st.rerun()


def region_choice(read: LongReading) -> tuple[Region, bool]:
    """Ask for the part of the text that is shown; returns it, and whether colours are logarithmic."""
    state, last = st.session_state, read.tokens
    spans = [link.restore(key, (1, last), link.span(1, last)) for key in AXES]
    if last > 1:
        for key, place in zip(AXES, st.columns(2, gap="large"), strict=True):
            place.slider(t(f"long_text.{key}"), 1, last, key=key, on_change=_step_in)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        first = pick("controls.first", ("shown", "log", "hidden"), "log", key="long_first")
        whole = all(span == (1, last) for span in spans)
        while state.get(BACK) and state[BACK][-1] == spans:
            state[BACK].pop()
        if state.get(BACK):
            st.button(t("long_text.back"), key="long_back", icon=":material/arrow_back:", on_click=_step_back)
        if not whole:
            st.button(t("long_text.whole"), key="long_whole", icon=":material/zoom_out_map:", on_click=_whole)
    (row, row_end), (column, column_end) = spans
    hidden = first == "hidden" and column_end > 1
    region = Region(row - 1, row_end, max(column - 1, 1) if hidden else column - 1, column_end)
    state[SHOWN] = (read.name, spans, region)
    return region, first == "log"


def head_choice(model: str, read: LongReading, layer: int, region: Region) -> int:
    """Ask for a head of the layer, by its map of the region; counted from 0."""
    head = link.restore("head", min(BEST_HEAD.get(model, FIRST_HEAD)[1], read.heads), link.whole(1, read.heads))
    tiles = _wanted(lambda: _small(read.name, layer, read.heads, region))
    names = [str(n) for n in range(1, read.heads + 1)]
    meta = {"chosen": head - 1, "names": names, "words": words("head_strip")}
    st.html(f'<p class="gaze-label">{t("controls.head")}</p>')
    head_strip(meta, {"tiles": tiles}, key="long_heads", on_pick=_pick_head)
    return head - 1


def draw(read: LongReading, layer: int, head: int, region: Region, *, log: bool) -> LongMap:
    """Draw the map, with the text beside it."""
    found = _wanted(lambda: _map(read.name, layer, head, region))
    picked = link.restore("tile", _strongest_elsewhere(found), _tile(found))
    tile = " × ".join(f"{size:,}" for size in found.sizes)
    shape = " × ".join(map(str, found.weights.shape))
    size = "one" if found.sizes == (1, 1) else "many"
    note(f"long_text.shape_{size}", layer=layer + 1, head=head + 1, shape=shape, tile=tile)
    if region.column == 1:
        share = _wanted(lambda: _first_share(read.name, layer, head, region.row, region.row_end))
        note("long_text.first_hidden", share=f"{share:.1%}")
    inside = found.weights.sum(axis=1)
    counts = np.array([len(found.queries(n)) for n in range(len(inside))])
    if (region.column, region.column_end) != (0, read.tokens):
        outside = np.clip(1 - inside - found.sink, 0, None)
        shares = (f"{np.average(part, weights=counts):.1%}" for part in (inside, outside))
        note("long_text.inside", **dict(zip(("share", "rest"), shares, strict=True)))
    if found.sink.any():
        note("show.sink", share=f"{np.average(found.sink, weights=counts):.0%}")
    queries, keys = (read.parts(spans) for spans in _sides(found))
    meta = {
        "region": [region.row, region.row_end, region.column, region.column_end],
        "sizes": list(found.sizes),
        "picked": list(picked),
        "log": log,
        "queries": queries,
        "keys": None if keys == queries else keys,
        "words": words("long_map"),
    }
    arrays = {"weights": found.weights, "allowed": found.allowed}
    long_map(meta, arrays, key="long_map", on_region=_zoom, on_pick=_pick_tile)
    if found.sizes != (1, 1):
        spans = found.queries(picked[0]), found.keys(picked[1])
        told = {name: f"{span.start + 1}–{span.stop}" for name, span in zip(("query", "key"), spans, strict=True)}
        aim = [(span.start + 1, span.stop) for span in spans]
        st.button(t("long_text.zoom", **told), key="long_zoom", icon=":material/zoom_in:", on_click=_show, args=(aim,))
    return found


def strongest(read: LongReading, found: LongMap) -> None:
    """List the strongest links of the map."""
    rows = found.links(STRONGEST)
    st.markdown(f"**{t('long_text.strongest')}**")
    lines = []
    for row, column, weight in rows:
        sides = found.queries(row), found.keys(column)
        one, two = (f"{_places(span)} “{ISOLATE.format(_short(read, span))}”" for span in sides)
        lines.append(f"1. **{weight:.3f}** · {one} → {two}" if weight >= LEAST else f"1. **< {LEAST}** · {one} → {two}")
    st.markdown("\n".join(lines) if lines else t("long_text.none"))
    links = ((found.queries(row), found.keys(column)) for row, column, _ in rows)
    if sum(keys.start == 0 and queries.start >= keys.stop for queries, keys in links) > len(rows) / 2:
        note("long_text.resting")


def take_away(model: str, read: LongReading, layer: int, head: int, found: LongMap, *, log: bool) -> None:
    """Offer the map as files."""
    name = f"{offered()[model]} · {t('take_away.head', layer=layer + 1, head=head + 1)}"
    take_map(_as_view(read, found), name, f"gaze-long-{layer + 1}-{head + 1}", log=log)


@cache
def sample() -> str:
    """Return the text that is there at first."""
    return SAMPLE.read_text(encoding="utf-8").strip()


def _as_view(read: LongReading, found: LongMap) -> "HeadView":
    from attention_core.views import view_weights

    sides = _sides(found)
    labels = (
        [f"{_places(span)} {shortened(read.words(span.start, span.stop), 24)}" for span in side] for side in sides
    )
    places = tuple([_places(span) for span in side] for side in sides)
    return view_weights(*labels, found.weights, allowed=found.allowed, sink=found.sink, places=places)


def _sides(found: LongMap) -> tuple[list[range], list[range]]:
    rows, columns = found.weights.shape
    return [found.queries(n) for n in range(rows)], [found.keys(n) for n in range(columns)]


def _short(read: LongReading, span: range) -> str:
    return plain(shortened(read.words(span.start, span.stop), 60))


def _places(span: range) -> str:
    return f"{span.start + 1}" if len(span) == 1 else f"{span.start + 1}–{span.stop}"


def _strongest_elsewhere(found: LongMap) -> tuple[int, int]:
    """Return the tile to look at first: the strongest link that goes neither to the same tile nor to the first key."""
    weights = found.weights.copy()
    rows, columns = _sides(found)
    starts = np.array([span.start for span in rows])[:, None], np.array([span.start for span in columns])[None]
    weights[(starts[0] == starts[1]) | (starts[1] == 0)] = -1
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    return int(row), int(column)


def _wanted(ask: Callable[[], object]) -> object:
    """Ask for what may meanwhile be gone; then the page is drawn again, and says so."""
    try:
        with st.spinner(t("long_text.drawing")):
            return ask()
    except Gone:
        st.rerun()


def _tile(found: LongMap) -> Callable[[str], tuple[int, int]]:
    def parse(said: str) -> tuple[int, int]:
        row, _, column = said.partition("-")
        rows, columns = found.weights.shape
        return link.whole(0, rows - 1)(row), link.whole(0, columns - 1)(column)

    return parse


def _again(model: str, text: str) -> None:
    read = jobs.begin(model, text, LIMIT, again=True)
    st.session_state[RUN] = (read.name, True)


def _switch(name: str, on: bool) -> None:
    st.session_state[RUN] = (name, on)


def _pick_head() -> None:
    st.session_state["head"] = st.session_state["long_heads"].picked + 1


def _pick_tile() -> None:
    st.session_state["tile"] = tuple(st.session_state["long_map"].picked)


def _zoom() -> None:
    shown: Region = st.session_state[SHOWN][2]
    top, bottom, left, right = st.session_state["long_map"].region
    size, wide = shown.sizes()
    rows = shown.row + top * size + 1, min(shown.row + (bottom + 1) * size, shown.row_end)
    columns = shown.column + left * wide + 1, min(shown.column + (right + 1) * wide, shown.column_end)
    _show([rows, columns])


def _show(spans: list[tuple[int, int]]) -> None:
    _step_in()
    for key, span in zip(AXES, spans, strict=True):
        st.session_state[key] = span


def _step_in() -> None:
    """Note where the reader comes from, and let go of the tile that was picked there."""
    name, spans, _ = st.session_state[SHOWN]
    if name == st.session_state[OF]:  # sliders of another text change by themselves
        st.session_state.setdefault(BACK, []).append(spans)
        link.forget("tile")


def _step_back() -> None:
    for key, span in zip(AXES, st.session_state[BACK].pop(), strict=True):
        st.session_state[key] = span
    link.forget("tile")


def _whole() -> None:
    st.session_state.pop(BACK, None)
    link.forget(*OF_A_TEXT)
