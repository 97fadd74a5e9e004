"""Pictures in the compute thread: who sees what, computed once for everyone, and what is kept is bounded."""

import gc
import hashlib
import json
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attention_core import compute, job_log
from attention_core.picture_files import open_picture
from attention_core.store import Key

if TYPE_CHECKING:
    import numpy as np

    from attention_core.models.seeing import SeeingModel
    from attention_core.pictures import PictureView, SeenPicture

FOLDER = Path(__file__).parents[1] / "assets" / "pictures"
SHIPPED = ("shapes", "pair", "cat", "harbour")  # drawn by the script beside them
UPLOADS = 128 * 2**20  # bytes of visitors' pictures that are kept
MODELS = 1  # in memory; Gaze's own, which is tiny, comes on top
SHOWN = 384  # pixels of a picture's longer side in the browser


@dataclass(frozen=True)
class PictureReading:
    """What a model made of a picture, for the words round the pictures.

    Attributes:
        title: What people call the model.
        rows: Of the first layer's grid of patches.
        columns: Of the first layer's grid of patches.
        patch: Height and width of a patch in pixels.
        size: Height and width of the picture as the model saw it, in pixels.
        special: The tokens that are no patches.
        tokens: How many tokens there are, in a model with windows the patches.
        heads: How many heads each layer has.
        windows: How many windows each layer has; empty in a model without.
        says: The classes that it finds likeliest, with their probabilities; empty where it names none.
        device: Where it was computed.
        seconds: How long preparing the picture, the forward pass and the capture took.
        pretrained: False for a model that was never trained.
        scores: False where the model hands out weights only.
        own_processor: False where PIL stands in for the model's own preparation of pictures.
    """

    title: str
    rows: int
    columns: int
    patch: tuple[int, int]
    size: tuple[int, int]
    special: tuple[str, ...]
    tokens: int
    heads: tuple[int, ...]
    windows: tuple[int, ...]
    says: tuple[tuple[str, float], ...]
    device: str
    seconds: float
    pretrained: bool
    scores: bool
    own_processor: bool


_lock = threading.Lock()
_uploads: "OrderedDict[str, bytes]" = OrderedDict()
_models: "OrderedDict[str, SeeingModel]" = OrderedDict()


def tiny_accuracy() -> dict[str, float]:
    """Return what was measured of Gaze's own model: on how many new ``pictures``, and its ``accuracy``."""
    return json.loads((FOLDER / "tiny_vit" / "accuracy.json").read_text(encoding="utf-8"))


def keep(data: bytes) -> str:
    """Keep a visitor's picture in memory, and return the name by which the jobs know it.

    Raises:
        PictureRefusedError: If it is no picture that can be used.
    """
    name = hashlib.sha256(data).hexdigest()[:24]
    if name not in _uploads:
        open_picture(data)
    with _lock:  # visitors come from threads of their own
        _uploads[name] = data
        _uploads.move_to_end(name)
        while sum(map(len, _uploads.values())) > UPLOADS:
            _uploads.popitem(last=False)
    return name


def has(name: str) -> bool:
    """Return whether a visitor's picture is still kept."""
    return name in _uploads


def read(model: str, picture: str) -> PictureReading:
    """Show a picture to a model, and say what was seen.

    Raises:
        ModelError: If the model can't be loaded, or its attention can't be seen.
    """
    loaded = _model(model)
    shown, seconds = _picture(model, picture)
    seen, windowed = shown.seen, shown.windowed
    return PictureReading(
        title=loaded.title,
        rows=shown.rows,
        columns=shown.columns,
        patch=shown.patch,
        size=(shown.picture.shape[0], shown.picture.shape[1]),
        special=shown.special,
        tokens=len(seen.tokens),
        heads=tuple(one.heads for one in (seen.cut if windowed else map(seen.layer, range(seen.layers)))),
        windows=tuple(one.windows.count for one in seen.cut) if windowed else (),
        says=shown.says,
        device=loaded.module.device.type,
        seconds=seconds,
        pretrained=seen.pretrained,
        scores=seen.scores,
        own_processor=loaded.own_processor,
    )


def pixels(model: str, picture: str) -> "np.ndarray":
    """Return the picture as the model saw it, (height, width, 3) bytes, made smaller if it is large."""
    import numpy as np
    from PIL import Image

    own = Image.fromarray(_picture(model, picture)[0].picture)
    own.thumbnail((SHOWN, SHOWN), Image.Resampling.LANCZOS)
    return np.asarray(own)


def view(model: str, picture: str, layer: int, head: int, way: str, window: int) -> "PictureView":
    """Prepare the weights of a head, of all heads of a layer, or through all layers, for showing."""
    from attention_core.pictures import view_picture

    return view_picture(_picture(model, picture)[0], layer, head, way, window)


def owners(model: str, picture: str, layer: int) -> "np.ndarray":
    """Return the window of each patch of a layer's grid."""
    return _picture(model, picture)[0].windows(layer)


def tiles(model: str, picture: str, layer: int, window: int) -> "np.ndarray":
    """Return a small picture of each head of a layer, (H, r, c) bytes."""
    from attention_core.pictures import head_tiles

    return head_tiles(_picture(model, picture)[0], layer, window)


def archive(model: str, picture: str, layer: int, head: int, window: int) -> bytes:
    """Return one head as a NumPy archive."""
    from attention_core.export import head_npz

    seen, at = _picture(model, picture)[0].of(layer, window)
    return head_npz(seen, at, head)


def _model(name: str) -> "SeeingModel":
    from attention_core.models.seeing import load_seeing
    from attention_core.models.sees import TINY

    if name not in _models:
        while sum(kept != TINY for kept in _models) >= MODELS and name != TINY:
            gone = next(kept for kept in _models if kept != TINY)
            del _models[gone]
            compute._store.drop(lambda key, gone=gone: key.what == "picture" and key.model == gone)
            gc.collect()
        _models[name] = load_seeing(name)
    return _models[name]


def _picture(model: str, picture: str) -> "tuple[SeenPicture, float]":
    from attention_core.pictures import see

    key = Key(model, picture, what="picture")
    kept = compute._store.get(key)
    if stored := kept is not None:
        shown, seconds = kept
    else:
        data = (FOLDER / f"{picture}.png").read_bytes() if picture in SHIPPED else _uploads[picture]
        loaded = _model(model)
        start = time.perf_counter()
        shown = see(loaded, open_picture(data))
        seconds = time.perf_counter() - start
        compute._keep(key, (shown, seconds), shown.seen.bytes, str(loaded.module.device))
    job_log.note(model, len(shown.seen.tokens), None, stored=stored)
    return shown, seconds
