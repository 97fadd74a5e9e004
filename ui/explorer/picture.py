"""The page "Picture": a model that sees, a picture, and where each patch looks."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from attention_core import compute
from attention_core import picture_jobs as jobs
from attention_core.models.sees import KNOWN, TINY, that_see
from attention_core.picture_files import PictureRefusedError
from attention_core.settings import settings
from ui import link
from ui.components import head_strip
from ui.components.picture_map import picture_map
from ui.compute import door
from ui.lesson import tries
from ui.pick import pick
from ui.text import note, plain, say, t, words

if TYPE_CHECKING:
    from attention_core.picture_jobs import PictureReading
    from attention_core.pictures import PictureView

OWN, KEPT = "own", "_own_picture"
WAYS = ("head", "mean", "rollout")
MOST_TOKENS = 1600  # as in attention_core.pictures, which is not loaded for it
FIRST = {TINY: (1, 3)}  # the layer and the head that find the red shape, counted from 1; a test finds them again
NAMED = 3  # classes that are written out


@door
def _read(model: str, picture: str) -> "PictureReading":
    return compute.run(jobs.read, model, picture)


@partial(door, most=96)
def _pixels(model: str, picture: str) -> "np.ndarray":
    return compute.run(jobs.pixels, model, picture)


@partial(door, most=96)  # up to a megabyte each
def _view(model: str, picture: str, layer: int, head: int, way: str, window: int) -> "PictureView":
    return compute.run(jobs.view, model, picture, layer, head, way, window)


@door
def _owners(model: str, picture: str, layer: int) -> "np.ndarray":
    return compute.run(jobs.owners, model, picture, layer)


@door
def _tiles(model: str, picture: str, layer: int, window: int) -> "np.ndarray":
    return compute.run(jobs.tiles, model, picture, layer, window)


def model_choice() -> str:
    """Ask for a model that sees; where Gaze's own is the only one, say which others can be had, and how."""
    models = that_see()
    afresh = {"on_change": link.forget, "args": ("picture_layer", "picture_head", "window")}
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        model = pick("picture.model", models, TINY, key="vision", name=lambda one: plain(models[one]), **afresh)
        with st.popover(t("picture.others"), icon=":material/add:"):
            if settings().public:
                note("opening.public")
            else:
                say("picture.others_how")
                st.code("\n".join(KNOWN), language=None)
    if model == TINY:
        told = jobs.tiny_accuracy()
        say("picture.tiny", pictures=f"{told['pictures']:,}", right=round(told["accuracy"] * told["pictures"]))
    return model


def picture_choice() -> str:
    """Ask for one of the drawn pictures, or a file; returns the name by which the jobs know it."""
    names = (*jobs.SHIPPED, OWN)
    chosen = link.restore("picture", names[0], link.one_of(*names))
    _pills("picture", names)
    if chosen != OWN:
        return chosen
    if settings().public:
        note("picture.public")
        return names[0]
    kinds, most = ("png", "jpg", "jpeg", "webp"), settings().max_upload_mb
    file = st.file_uploader(t("picture.file", most=most), kinds, key="picture_file", on_change=_forget_file)
    if file is None:
        before = st.session_state.get(KEPT, "")  # an uploader forgets its file on the way to another page
        note("picture.from_before" if jobs.has(before) else "picture.no_file")
        return before if jobs.has(before) else names[0]
    try:
        st.session_state[KEPT] = jobs.keep(file.getvalue())
        return st.session_state[KEPT]
    except PictureRefusedError as error:
        places = {name: plain(value) for name, value in error.places.items()}
        st.error(t(f"picture.refused_{error.reason}", **places))
        return names[0]


def reading(model: str, picture: str) -> "PictureReading":
    """Let the model see the picture, and say what it says of it."""
    with st.spinner(t("picture.looking")):
        read = _read(model, picture)
    if not read.pretrained:
        st.warning(t("reading.random"))
    if read.says:
        named = (lambda name: t(f"picture.shape_{name}")) if model == TINY else plain
        said = [f"{named(name)} {share:.2%}" for name, share in read.says[:NAMED]]
        st.markdown(t("picture.says", first=said[0], rest=", ".join(said[1:])))
    return read


def part_choice(model: str, read: "PictureReading") -> tuple[int, int, str]:
    """Ask for the layer, the window where there are several, and what the weights are of; layer, window from 0."""
    layers = len(read.heads)
    first = FIRST.get(model, (layers, 1))[0]
    with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
        layer = link.restore("picture_layer", first, link.whole(1, layers)) - 1
        st.slider(t("controls.layer"), 1, layers, key="picture_layer", width=220)
        count, window = read.windows[layer] if read.windows else 1, 1
        if count > 1:
            window = link.restore("window", 1 + count // 2, link.whole(1, count))
            st.number_input(t("picture.window", count=count), 1, count, key="window", width=220)
        ways = WAYS[: 1 if read.tokens > MOST_TOKENS and not count > 1 else 2 if read.windows else 3]
        way = ways[0]
        if len(ways) > 1:
            way = pick("picture.way", ways, way, key="picture_way", name=lambda one: t(f"picture.way_{one}_short"))
    return layer, window - 1, way


def head_choice(model: str, picture: str, read: "PictureReading", layer: int, window: int) -> int:
    """Ask for a head of the layer, by where it looks; counted from 0."""
    heads = read.heads[layer]
    head = link.restore("picture_head", min(FIRST.get(model, (1, 1))[1], heads), link.whole(1, heads))
    meta = {"chosen": head - 1, "names": [str(n + 1) for n in range(heads)], "words": words("head_strip")}
    cls = "[CLS]" in read.special
    st.html(f'<p class="gaze-label">{t("picture.heads_cls" if cls else "picture.heads_all")}</p>')
    tiles = {"tiles": _tiles(model, picture, layer, window)}
    head_strip(meta, tiles, key="picture_heads", on_pick=lambda: _pick("picture_head", "picture_heads", "picked"))
    return head - 1


def look(model: str, picture: str, layer: int, head: int, way: str, window: int) -> "PictureView":
    """Draw the picture twice: what looks, and where it looks."""
    view, pixels, owner = (
        _view(model, picture, layer, head, way, window),
        _pixels(model, picture),
        _owners(model, picture, layer),
    )
    read = _read(model, picture)
    if view.only:
        say("show.weights_only", reason=view.only)
    say(f"picture.way_{way}", layer=layer + 1, head=head + 1)
    sides = zip(read.patch, (read.rows, read.columns), owner.shape, read.size, strict=True)
    cell = [patch * round(whole / now) * view.square / size for patch, whole, now, size in sides]
    name = f"picture-{model}-{picture}-{layer if read.windows else ''}-{window}"
    meta = {
        "view": name,
        "param": "query",
        "pinned": link.pinned(len(view.labels)),
        "queries": view.labels,
        "keys": view.labels,
        "default": _default(view),
        "grid": view.grid,
        "cell": cell,
        "window": window if read.windows and read.windows[layer] > 1 else None,
        "file": _file(model, picture, layer, head, way),
        "words": words("picture_map"),
    }
    arrays = {
        "picture": pixels,
        "weights": view.weights,
        "allowed": view.allowed,
        "places": view.places.astype(np.int32),
        "owner": owner[:: view.square, :: view.square].astype(np.int32),
    }
    picture_map(meta, arrays, key="picture_map", on_window=lambda: _pick("window", "picture_map", "window"))
    return view


def about(model: str, picture: str, view: "PictureView", layer: int) -> None:
    """Say how the picture was cut up, and how fast it was seen."""
    read = _read(model, picture)
    height, width = read.size
    note("picture.cut", width=width, height=height, patch=read.patch[0], rows=read.rows, columns=read.columns)
    rows, columns = _owners(model, picture, layer).shape
    if rows < read.rows:
        note("picture.coarser", rows=rows, columns=columns, side=round(read.rows / rows))
    if not read.own_processor:
        note("picture.prepared")
    if read.special:
        note("picture.special", names=", ".join(read.special))
    if any(name.startswith("[REG") for name in read.special):
        note("picture.registers")
    if view.square > 1:
        note("picture.squares", square=view.square)
    if read.windows and read.windows[layer] > 1:
        note("picture.windows", count=read.windows[layer])
    note("picture.line", title=read.title, device=read.device, milliseconds=round(read.seconds * 1000))


def take_away(model: str, picture: str, view: "PictureView", layer: int, head: int, way: str, window: int) -> None:
    """Offer the weights as a table and as arrays, and the lines of Python; made only when asked."""
    place = st.expander(t("take_away.title"), icon=":material/download:", key="take_picture", on_change="rerun")
    if not place.open:
        return
    file, asked = _file(model, picture, layer, head, way), (model, picture, layer, head, window)
    with place:
        note("picture.take_png")
        with st.container(horizontal=True, gap="small"):
            st.download_button(
                t("take_away.csv"), lambda: _csv(view), f"{file}.csv", "text/csv", key="take_csv", on_click="ignore"
            )
            if way == "head":
                npz = lambda: compute.run(jobs.archive, *asked)  # noqa: E731
                kind = "application/octet-stream"
                st.download_button(t("take_away.npz"), npz, f"{file}.npz", kind, key="take_npz", on_click="ignore")
        note("take_away.python")
        st.code(_python(model, picture, layer, head, way, window), language="python")


def prompts(model: str) -> None:
    """Write what to try with Gaze's own model."""
    if model == TINY:
        tries("picture")


def _csv(view: "PictureView") -> bytes:
    from attention_core.pictures import picture_csv

    return picture_csv(view).encode("utf-8-sig")


def _python(model: str, picture: str, layer: int, head: int, way: str, window: int) -> str:
    file = f"assets/pictures/{picture}.png" if picture in jobs.SHIPPED else "my_picture.png"
    return f"""\
from pathlib import Path
from attention_core.models.seeing import load_seeing
from attention_core.picture_files import open_picture
from attention_core.pictures import see, view_picture

shown = see(load_seeing({model!r}), open_picture(Path({file!r}).read_bytes()))
view = view_picture(shown, layer={layer}, head={head}, way={way!r}, window={window})  # counted from 0
print(dict(zip(view.labels, view.weights[0])))  # the first token's row
"""


def _default(view: "PictureView") -> int:
    """Return the token that looks at first: [CLS], or else the patch in the middle."""
    if view.labels[0] == "[CLS]":
        return 0
    patches = np.where(view.places >= 0, view.places, np.nan)
    return int(np.nanargmin(np.abs(patches - np.nanmean(patches, axis=0)).sum(axis=1)))


def _file(model: str, picture: str, layer: int, head: int, way: str) -> str:
    name = "".join(c if c.isalnum() or c in ".-" else "-" for c in model)
    what = {"head": f"layer-{layer + 1}-head-{head + 1}", "mean": f"layer-{layer + 1}-mean", "rollout": "rollout"}[way]
    return f"gaze-{name}-{picture[:12]}-{what}"


def _pills(key: str, names: Iterable[str]) -> None:
    st.pills(
        t("picture.picture"), list(names), key=key, format_func=lambda name: t(f"picture.name_{name}"), required=True
    )


def _forget_file() -> None:
    st.session_state.pop(KEPT, None)


def _pick(key: str, component: str, event: str) -> None:
    st.session_state[key] = st.session_state[component][event] + 1
