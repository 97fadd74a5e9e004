"""The one compute thread of the process: all torch work runs in it, one job after the other, for everyone.

Two threads that use torch at once fight over the cores, and the same text is often asked for by a whole class: here the
second request finds what the first has left. What is kept is bounded in bytes, the least recently used goes first.
"""

import gc
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from attention_core.errors import ModelHidden, NoTokens, whole_sentence
from attention_core.settings import positive

if TYPE_CHECKING:
    import numpy as np

    from attention_core.captured import Capture
    from attention_core.formula import Formula
    from attention_core.models.loading import LoadedModel
    from attention_core.views import HeadView

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Reading:
    """What a model made of a text, for the line above the pictures.

    Attributes:
        labels: The tokens, readable.
        special: Which of them are special tokens.
        added: How many the tokeniser added.
        tokens: How many tokens the whole text has.
        cut: How many words at the end were left out because the model or the page takes no more.
        limit: How many tokens were allowed.
        layers: How many layers the model has.
        heads: How many query heads a layer has.
        device: Where it was computed.
        seconds: How long the forward pass and the capture took.
        pretrained: False for a model that was never trained.
    """

    labels: tuple[str, ...]
    special: tuple[bool, ...]
    added: int
    tokens: int
    cut: int
    limit: int
    layers: int
    heads: int
    device: str
    seconds: float
    pretrained: bool


def run(job: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a job in the compute thread and wait for its result; what it raises is raised here."""
    if threading.get_ident() == _settled_in:  # a job that asks for another would wait for itself
        return job(*args, **kwargs)
    return _thread.submit(job, *args, **kwargs).result()


def loaded(model: str) -> bool:
    """Return whether a model is in memory, so that nobody has to wait for it."""
    return model in _models


def prepare(model: str) -> None:
    """Convert a model ahead of time, where that is needed, in a process of its own: nobody else waits meanwhile.

    Called from any thread; returns when the model can be loaded quickly, or can't be prepared.
    """
    from attention_core.models.embedded import needs_conversion

    if needs_conversion(model):
        root = Path(__file__).parents[1]
        subprocess.run([sys.executable, "-m", "attention_core.models.prepare"], cwd=root, check=False)


def read(model: str, text: str, limit: int) -> Reading:
    """Capture a text, cut at a word if it has more than ``limit`` tokens, and say what was read. In the compute thread.

    Raises:
        NoTokens: If the tokeniser leaves nothing of the text.
        ModelError: If the model can't be loaded.
    """
    loaded = _model(model)
    limit = min(limit, loaded.limit or limit)
    kept, tokens, cut = _fit(model, text, limit)
    seen, seconds = _capture(model, kept)
    return Reading(
        labels=tuple(token.label for token in seen.tokens),
        special=tuple(token.special for token in seen.tokens),
        added=sum(token.added for token in seen.tokens),
        tokens=tokens,
        cut=cut,
        limit=limit,
        layers=seen.layers,
        heads=seen.heads,
        device=loaded.device,
        seconds=seconds,
        pretrained=seen.pretrained,
    )


def view(
    model: str,
    text: str,
    limit: int,
    layer: int,
    head: int,
    unit: str,
    special: str,
    first: bool = True,
    without: tuple[str, ...] = (),
    temperature: float = 1.0,
) -> "HeadView":
    """Prepare one head of a text for showing, its formula ``without`` some terms. In the compute thread."""
    from attention_core.views import view_head

    formula = _changes(without, temperature)
    return view_head(_seen(model, text, limit), layer, head, unit, special, formula, first=first)


def strip(model: str, text: str, limit: int, layer: int) -> "np.ndarray":
    """Return the thumbnails of all heads of a layer, (H, s, s) bytes. In the compute thread."""
    from attention_core.views import thumbnails

    return thumbnails(_seen(model, text, limit), layer)


def archive(
    model: str,
    text: str,
    limit: int,
    layer: int,
    head: int,
    without: tuple[str, ...] = (),
    temperature: float = 1.0,
) -> bytes:
    """Return one head of a text as a NumPy archive. In the compute thread."""
    from attention_core.export import head_npz

    return head_npz(_seen(model, text, limit), layer, head, _changes(without, temperature))


def lines(
    model: str,
    text: str,
    limit: int,
    layer: int,
    head: int,
    query: int,
    key: int,
    without: tuple[str, ...] = (),
    temperature: float = 1.0,
    unit: str = "token",
) -> str:
    """Return the Python that computes one weight of a text again. In the compute thread."""
    from attention_core.export import as_python

    seen = _seen(model, text, limit)
    formula = _changes(without, temperature)
    return as_python(model, seen.text, layer, head, query, key, formula, unit, scores=seen.scores)


def _changes(without: tuple[str, ...], temperature: float) -> "Formula":
    from attention_core.formula import Formula

    terms = tuple(name for name in without if name != "factor")
    return Formula(scaled="factor" not in without, temperature=temperature, without=terms)


def _seen(model: str, text: str, limit: int) -> "Capture":
    return _capture(model, _fit(model, text, min(limit, _model(model).limit or limit))[0])[0]


@lru_cache(maxsize=64)
def _fit(model: str, text: str, limit: int) -> tuple[str, int, int]:
    from attention_core.tokens import fit

    return fit(_model(model).tokenizer, text, limit)


_settled_in: int | None = None


def _settle() -> None:
    import torch

    global _settled_in
    _settled_in = threading.get_ident()
    # Half the cores: with as many torch threads as cores, the web server's own work stalls them for seconds.
    torch.set_num_threads(max(1, int(positive("GAZE_THREADS", (os.cpu_count() or 2) // 2 or 1))))


# Made with the module: made when first asked for, two sessions that come at once would get one each.
_thread = ThreadPoolExecutor(1, thread_name_prefix="gaze-compute", initializer=_settle)


_models: "dict[str, LoadedModel]" = {}
_captures: "OrderedDict[tuple[str, str], tuple[Capture, float]]" = OrderedDict()


def _model(name: str) -> "LoadedModel":
    if name not in _models:
        from attention_core.models.catalogue import source
        from attention_core.models.loading import load_model

        _models[name] = load_model(source(name))
        gc.collect()
        gc.freeze()  # the model and its libraries stay: no later collection needs to look at them again
    return _models[name]


def _capture(model: str, text: str) -> "tuple[Capture, float]":
    from attention_core.captured import capture

    key = (model, text)
    if key not in _captures:
        loaded = _model(model)
        start = time.perf_counter()
        try:
            seen = capture(loaded, text)
        except NoTokens:
            raise
        except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:  # any model may be brought along
            raise ModelHidden(
                loaded.title, whole_sentence(error), "choose another model, or capture it from Python"
            ) from error
        _captures[key] = seen, time.perf_counter() - start
    _captures.move_to_end(key)
    bound = positive("GAZE_CACHE_MB", 512) * 2**20
    while len(_captures) > 1 and sum(seen.bytes for seen, _ in _captures.values()) > bound:
        _captures.popitem(last=False)
    return _captures[key]
