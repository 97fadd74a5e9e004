"""The one compute thread of the process: all torch work runs in it, one job after the other, for everyone.

Two threads that use torch at once fight over the cores, and the same text is often asked for by a whole class: here the
second request finds what the first has left. What is kept is bounded in bytes, the least recently used goes first.
Whoever asks for many jobs gets no more of the thread than others who wait (:mod:`attention_core.turns`).
"""

import gc
import logging
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from attention_core import job_log
from attention_core.errors import ModelHidden, NotNumbers, NoTokens, OutOfMemory, whole_sentence
from attention_core.inputs import Input, as_input
from attention_core.settings import settings
from attention_core.store import Key, Store
from attention_core.turns import Asker, Gone, Turns

if TYPE_CHECKING:
    import numpy as np
    import torch
    from transformers import PreTrainedConfig

    from attention_core.captured import Capture
    from attention_core.formula import Formula
    from attention_core.inputs import Can
    from attention_core.layers import Layers
    from attention_core.models.loading import LoadedModel, Tokenizer
    from attention_core.patience import Pacing
    from attention_core.reading import Writing
    from attention_core.rotary import Rotation
    from attention_core.views import HeadView

P = ParamSpec("P")
R = TypeVar("R")
READERS = 8  # tokenisers that are kept


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
        pretrained: False for a model that has weights which were never trained.
        missing: The names of weights that attention rests on and that were not among the files.
        left_over: The names of weights of layers that were in the files and have no place in the model.
        target: In encoder-decoder models, what the decoder reads, readable; else empty.
        target_text: The same as a text.
        written: Whether the model wrote that itself.
        which: Which layers are local, and which are skipped.
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
    missing: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    target_text: str = ""
    written: bool = False
    which: "Layers | None" = None

    @property
    def longest(self) -> int:
        """How many tokens the longer side has."""
        return max(len(self.labels), len(self.target))


def run(job: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a job in the compute thread and wait for its result; what it raises is raised here.

    Raises:
        Gone: If whoever asked has left before the job could begin.
    """
    if threading.get_ident() == _settled_in:  # a job that asks for another would wait for itself
        return job(*args, **kwargs)
    asker = _who()
    try:
        return _turns.submit(partial(_told, job, args, kwargs), asker).result()
    except Gone:
        asker.leave()
        raise


def asked_by(who: Callable[[], Asker]) -> None:
    """Let a function say in whose name a thread asks for jobs; without one, every thread asks for itself."""
    global _who
    _who = who


def _told(job: Callable[..., R], args: tuple, kwargs: dict) -> R:
    work = getattr(job, "__self__", None)  # of which this is a piece
    what = getattr(work, "what", getattr(job, "__qualname__", type(job).__name__))
    with job_log.line(what, work if isinstance(work, job_log.Work) else None):
        return job(*args, **kwargs)


def warm() -> None:
    """Wait until torch and transformers are imported, the first time; afterwards it costs nothing.

    To be called before anything that imports them. Two threads that import transformers at once can each find the other
    half-way, and fail.
    """
    _libraries().result()


def loaded(model: str) -> bool:
    """Return whether a model is in memory, so that nobody has to wait for it."""
    return model in _models


def prepare(model: str) -> None:
    """Convert a model ahead of time, where that is needed, in a process of its own: nobody else waits meanwhile.

    Called from any thread; returns when the model can be loaded quickly, or can't be prepared.
    """
    from attention_core.models.catalogue import unprepared

    if unprepared(model):
        root = Path(__file__).parents[1]
        subprocess.run([sys.executable, "-m", "attention_core.models.prepare", model], cwd=root, check=False)


def open_model(model: str) -> None:
    """Load a model if it is not in memory, so that what is wrong with it shows now. In the compute thread.

    Raises:
        ModelError: If it can't be loaded; the models that are in memory stay, unless memory did not suffice.
    """
    _reader(model)


def can(model: str) -> "Can":
    """Say in which ways a model can read. In the compute thread."""
    return _reader(model).can


def write(model: str, text: str | Input, limit: int) -> bool:
    """Let an encoder-decoder model write one token of its target, where one is looked at and nobody typed it.

    Returns whether there is more to write. In the compute thread, which others can use between two tokens.
    """
    writing = _writing(model, text, limit)
    if writing is not None and not writing.done:
        writing.step(_model(model))
    return writing is not None and not writing.done


def read(model: str, text: str | Input, limit: int) -> Reading:
    """Capture a text, cut at a word if it has more than ``limit`` tokens, and say what was read. In the compute thread.

    Raises:
        NoTokens: If the tokeniser leaves nothing of the text.
        ModelError: If the model can't be loaded.
    """
    from attention_core.layers import layers_of

    loaded = _reader(model)
    limit = min(limit, loaded.limit or limit)
    _, tokens, cut = _fit(model, text, limit)
    seen, seconds = _narrowed(model, text, limit)
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
        missing=loaded.missing,
        left_over=loaded.left_over,
        target=tuple(token.label for token in seen.target),
        target_text=seen.target_text,
        written=seen.written,
        which=layers_of(seen),
    )


def paced(job: Callable[..., R], model: str, *args: object) -> "Pacing":
    """Return a job with a model as work in pieces for the compute thread, between which others are served.

    It may not ask for other jobs, nor change the model. A model that computes attention in a way of its own may keep
    state between its layers, or exchange them, so that it is done in one piece.
    """
    from attention_core.patience import Pacing

    return Pacing(job.__qualname__, partial(job, model, *args), lambda: _reader(model).own_way)


def view(
    model: str,
    text: str | Input,
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
    between = as_input(text).between
    return view_head(_seen(model, text, limit), layer, head, unit, special, formula, first=first, between=between)


def strip(model: str, text: str | Input, limit: int, layer: int) -> "np.ndarray":
    """Return the thumbnails of all heads of a layer, (H, s, s) bytes. In the compute thread."""
    from attention_core.views import thumbnails

    return thumbnails(_seen(model, text, limit), layer)


def turns(model: str) -> bool:
    """Return whether a model turns queries and keys by their positions, in some layer. In the compute thread."""
    from attention_core import rotary

    return rotary.turns(_model(model).module)


def turned(model: str, text: str | Input, limit: int, layer: int, head: int) -> "Rotation | str":
    """Return a head before and after its rotation, or why not: "none" here, or "hidden". In the compute thread."""
    from attention_core.rotary import NotTurned, before_rotation

    try:
        found = before_rotation(_model(model), _seen(model, text, limit), layer, head)
    except NotTurned as error:
        return "hidden" if error.turned else "none"
    return found if found.steady else "hidden"


def archive(
    model: str,
    text: str | Input,
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
    text: str | Input,
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
    return as_python(model, _kept(model, text, limit), layer, head, query, key, formula, unit, scores=seen.scores)


def _changes(without: tuple[str, ...], temperature: float) -> "Formula":
    from attention_core.formula import Formula

    terms = tuple(name for name in without if name != "factor")
    return Formula(scaled="factor" not in without, temperature=temperature, without=terms)


def _seen(model: str, text: str | Input, limit: int) -> "Capture":
    return _narrowed(model, text, limit)[0]


def _narrowed(model: str, text: str | Input, limit: int) -> "tuple[Capture, float]":
    kept = _kept(model, text, limit)
    writing = _writing(model, text, limit)
    while writing is not None and not writing.done:  # nobody has let it write before, a token at a time
        writing.step(_model(model))
    # The first of the kinds needs no target; all others are in the same capture.
    same = kept._replace(kind="cross" if kept.kind in ("decoder", "cross") else "", between="")
    seen, seconds = _capture(model, same, writing.ids if writing else ())
    with _visible(model):
        return (seen.only(kept.kind) if kept.kind else seen), seconds


def _kept(model: str, text: str | Input, limit: int) -> Input:
    return _fit(model, text, min(limit, _reader(model).limit or limit))[0]


@lru_cache(maxsize=1)
def _libraries() -> Future:
    def job() -> None:
        from attention_core import edits, generating, pictures  # noqa: F401 - and what these import in their turn

    return _thread.submit(job)


@lru_cache(maxsize=64)
def _fit(model: str, text: str | Input, limit: int) -> tuple[Input, int, int]:
    from attention_core.reading import fit_input

    return fit_input(_reader(model), as_input(text), limit)


_settled_in: int | None = None


def _settle() -> None:
    import torch

    global _settled_in
    _settled_in = threading.get_ident()
    # Half the cores: with as many torch threads as cores, the web server's own work stalls them for seconds.
    torch.set_num_threads(max(1, settings().threads or (os.cpu_count() or 2) // 2))


# Made with the module: made when first asked for, two sessions that come at once would get one each.
_thread = ThreadPoolExecutor(1, thread_name_prefix="gaze-compute", initializer=_settle)
_turns = Turns(_thread)
_who: Callable[[], Asker] = lambda: Asker(threading.get_ident())  # noqa: E731

_models: "dict[str, LoadedModel]" = {}  # the least recently used first
_readers: "OrderedDict[str, Reader]" = OrderedDict()
_users: list[Callable[[str], object]] = []  # called with a model's name, so that nobody holds on to it once it leaves
_store = Store()  # of captures and all else that is large, by :class:`attention_core.store.Key`
_too_large: set[tuple] = set()  # what of which models, so that the log says it once
_written: "OrderedDict[tuple[str, Input], Writing]" = OrderedDict()
MOST_TARGETS = 64


class Reader(NamedTuple):
    """What stays of a model when its weights make room for another's: enough to find its captures again."""

    title: str
    tokenizer: "Tokenizer"
    config: "PreTrainedConfig"
    can: "Can"
    limit: int | None
    device: str
    missing: tuple[str, ...]
    left_over: tuple[str, ...]
    precision: str
    own_way: bool


def _reader(name: str) -> Reader:
    job_log.of(name)
    if name not in _readers or not (name in _models or any(key.model == name for key in _store)):
        from attention_core.reading import can_read

        loaded = _model(name)
        found = "can", "precision", "own_way"
        same = {field: getattr(loaded, field) for field in Reader._fields if field not in found}
        own_way = not loaded.module._can_set_attn_implementation()
        _readers[name] = Reader(**same, can=can_read(loaded), precision=str(loaded.module.dtype), own_way=own_way)
    _readers.move_to_end(name)
    while len(_readers) > READERS:
        _readers.popitem(last=False)
    return _readers[name]


def _model(name: str) -> "LoadedModel":
    job_log.of(name)
    if name not in _models:
        from attention_core.models.catalogue import source
        from attention_core.models.loading import load_model

        try:
            loaded = load_model(source(name), before_weights=lambda: _make_room(name))
        except OutOfMemory:
            _free(_own())
            gc.freeze()
            raise
        _models[name] = loaded
        gc.collect()
        gc.freeze()  # the model and its libraries stay: no later collection needs to look at them again
    _models[name] = _models.pop(name)
    return _models[name]


def _own() -> list[str]:
    """Return the models in memory beside the embedded ones, which are small and which pages change between."""
    from attention_core.models.embedded import EMBEDDED

    return [name for name in _models if name not in EMBEDDED]


def _make_room(name: str) -> None:
    """Let go of as many models that were brought along as there are too many, once ``name`` comes; captures stay."""
    from attention_core.models.embedded import EMBEDDED

    own, most = _own(), settings().models
    if name not in EMBEDDED and len(own) >= most:
        _free(own[: len(own) - most + 1])


def _free(names: list[str]) -> None:
    import ctypes

    import torch

    for name in names:
        del _models[name]
        for let_go in _users:
            let_go(name)
    gc.unfreeze()  # a model refers to itself in circles, and what is frozen is never collected
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    with suppress(OSError, AttributeError):  # glibc keeps what is freed, unless it is told
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _writing(model: str, text: str | Input, limit: int) -> "Writing | None":
    from attention_core.reading import Writing

    asked = _kept(model, text, limit)
    if asked.kind not in ("decoder", "cross") or asked.second or not _reader(model).can.writes:
        return None
    key = (model, asked._replace(kind="", between=""))
    if key not in _written:
        with _visible(model):
            _written[key] = Writing(_model(model), asked, limit - 1)
    _written.move_to_end(key)
    while len(_written) > MOST_TARGETS:
        _written.popitem(last=False)
    return _written[key]


@contextmanager
def _visible(model: str) -> Iterator[None]:
    """Say in one sentence why a model's attention can't be seen."""
    from attention_core.models.loading import out_of_memory

    try:
        yield
    except NoTokens:
        raise
    except MemoryError as error:
        raise _too_much(_reader(model).title) from error
    except (TypeError, ValueError, RuntimeError, NotImplementedError, KeyError) as error:  # any model may be brought
        if out_of_memory(error):
            raise _too_much(_reader(model).title) from error
        reason = whole_sentence(ValueError(error.args[0]) if isinstance(error, KeyError) and error.args else error)
        raise ModelHidden(_reader(model).title, reason, "choose another model, or capture it from Python") from error


def _capture(
    model: str,
    asked: Input,
    written: Sequence[int] = (),
    edits: tuple = (),
    editing: "Callable[[], AbstractContextManager]" = nullcontext,
) -> "tuple[Capture, float]":
    """Return a capture and the seconds that it took, from the store if it is there.

    Args:
        model: The model's name.
        asked: What it reads, already cut.
        written: The target that it wrote itself.
        edits: What names the changes to the model.
        editing: A context in which the model is changed so.
    """
    key = Key(model, asked.text if asked == Input(asked.text) else asked, _reader(model).precision, edits)
    kept = _store.get(key)
    if stored := kept is not None:
        seen, seconds = kept
    else:
        start = time.perf_counter()
        try:
            seen = _captured(model, key.text, written, editing)
        except OutOfMemory as error:
            if not error.freed:
                raise
            seen = _captured(model, key.text, written, editing)  # there is more memory now
        seconds = time.perf_counter() - start
        _keep(key, (seen, seconds), seen.bytes, str(_last(seen).device))
    job_log.note(model, len(seen.tokens), asked, stored=stored)
    return seen, seconds


def _captured(
    model: str, asked: str | Input, written: Sequence[int], editing: "Callable[[], AbstractContextManager]"
) -> "Capture":
    from attention_core.captured import capture
    from attention_core.reading import has_target

    loaded, edited = _model(model), editing()
    with _visible(model), edited:
        if isinstance(asked, str) and not has_target(loaded):
            seen = capture(loaded, asked)
        else:
            seen = capture(loaded, as_input(asked), written=written)
    if editing is nullcontext and _last(seen).isnan().any():  # whatever is no number stays none up to there
        raise NotNumbers(loaded.title, "the last layer", "choose another model")
    return seen


def _last(seen: "Capture") -> "torch.Tensor":
    last = seen.layer(seen.layers - 1)
    return last.query if seen.scores else last.weights


def _keep(key: Key, value: object, size: int, device: str, leave: Callable[[], object] = lambda: None) -> None:
    """Keep something large in the store; where it is larger than all of it, the log says so once for each model."""
    if not _store.keep(key, value, size, device, leave) and (key.what, key.model) not in _too_large:
        _too_large.add((key.what, key.model))
        most = _store.most(device)
        logging.getLogger(__name__).warning(
            "%s of %s takes %.1f MiB, and the store %.1f: computed, not kept; GAZE_CACHE_MB sets its size",
            *(key.what, key.model, size / 2**20, most / 2**20),
        )


def _too_much(title: str) -> OutOfMemory:
    freed = len(_store) > 0
    _store.clear()
    _free([])
    gc.freeze()
    error = OutOfMemory(title, "reading this text", "give a shorter text, or choose a smaller model")
    error.freed = freed
    return error
