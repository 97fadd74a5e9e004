"""Cached doors to attention_core. Arguments are strings and numbers; the work is done in the one compute thread."""

import inspect
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

import streamlit as st
from streamlit import config, runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from attention_core import compute, job_log
from attention_core.errors import ModelDamaged, ModelError, ModelMissing, NoTokens
from attention_core.inputs import Input
from attention_core.models.catalogue import offered
from attention_core.settings import settings
from attention_core.turns import Asker
from ui import link
from ui.text import plain, shortened, t

if TYPE_CHECKING:
    import numpy as np

    from attention_core.compute import Reading
    from attention_core.inputs import Can
    from attention_core.views import HeadView

P = ParamSpec("P")
R = TypeVar("R")


class Work(Protocol):
    """Work that is done a step at a time."""

    done: bool

    def step(self) -> None:
        """Do a piece more."""


W = TypeVar("W", bound=Work)
# What the reader's visit knows: what went wrong, the model to be shown next, the last that could be opened, and the one
# before it, as long as the last has shown nothing.
FAILED, NEXT, LAST, BEFORE = "_failed", "_next_model", "_last_model", "_model_before"
OF_A_MODEL = ("layer", "head", "also", "without", "aim")  # controls whose values are those of one model
LIMIT = settings().max_tokens
config.set_option("server.maxUploadSize", settings().max_upload_mb)
job_log.show()


def _session() -> Asker:
    """Return in whose name this thread asks: a session's, whose jobs are not started once it is closed."""
    run = get_script_run_ctx(suppress_warning=True)
    if run is None or not runtime.exists():
        return Asker(threading.get_ident())
    return Asker(run.session_id, lambda: runtime.get_instance().is_active_session(run.session_id), st.stop)


compute.asked_by(_session)


def door(job: Callable[P, R], most: int = 512) -> Callable[P, R]:
    """Let a page ask for a job: computed once for everyone, and what goes wrong is said, not raised.

    Of the results, ``most`` are kept.
    """
    shared = st.cache_resource(max_entries=most, show_spinner=False)(job)
    takes = inspect.signature(job)

    def ask(*args: P.args, **kwargs: P.kwargs) -> R:
        told = takes.bind(*args, **kwargs)
        told.apply_defaults()  # so that what is left out and what is said out loud is one question
        try:
            return shared(*told.args, **told.kwargs)
        except NoTokens:
            st.info(t("errors.NoTokens"))
            link.stop()
        except ModelError as error:
            _give_up(error)

    ask.raising = shared  # the same for those who can go on without it
    return ask


def in_pieces(work: W) -> W:
    """Do work a piece at a time, so that others are served in between."""
    while not work.done:
        compute.run(work.step)
    return work


def paced(job: Callable[..., R], model: str, *args: object) -> R:
    """Do a job of the compute thread in pieces."""
    work = compute.paced(job, model, *args)
    try:
        return in_pieces(work).found
    finally:
        work.close()


def _give_up(error: ModelError) -> None:
    """Say what is wrong; where a model was just chosen and has shown nothing yet, go back to the one before it."""
    state = st.session_state
    before = state.pop(BEFORE, None)
    if before and before != link.said("model"):
        state[FAILED], state[NEXT], state[LAST] = error, as_it_was(before), before
        st.rerun()
    failed(error)
    link.stop()


def as_it_was(model: str) -> dict[str, str]:
    """Return what to choose for a model to be shown as it was before another one was tried."""
    before = link.published("model", *OF_A_MODEL)
    return before if before.get("model") == model else {"model": model}


def failed(error: ModelError) -> None:
    """Say in one sentence what is wrong with a model, why, and what to do."""
    st.error(
        t(
            f"errors.{type(error).__name__}",
            model=plain(shortened(error.model, 60)),
            reason=plain(shortened(error.reason, 400)),
        )
    )
    if isinstance(error, ModelMissing | ModelDamaged):
        st.code(error.repair, language=None)


def ready(model: str) -> None:
    """See to it that a model is in memory, or has been.

    Raises:
        ModelError: If it can't be opened.
    """
    _ready(model, lambda: compute.run(compute.open_model, model))


def reading(model: str, text: str | Input) -> "Reading":
    """Read a text with a model: its tokens, the model's shape, the time it took."""
    found = _ready(model, lambda: _reading(model, text))
    if model == link.said("model"):
        st.session_state.pop(BEFORE, None)
    return found


def trouble(model: str, text: str | Input) -> ModelError | NoTokens | None:
    """Return what keeps a model from reading a text, for controls that must be there even if it can't."""
    try:
        _ready(model, lambda: _reading.raising(model, text))
    except (ModelError, NoTokens) as error:
        return error


def ways(model: str) -> "Can":
    """Say in which ways a model can read."""
    return _ready(model, lambda: _ways(model))


def _ready(model: str, ask: Callable[[], R]) -> R:
    if compute.loaded(model):
        return ask()
    with st.spinner(t("errors.loading", model=plain(offered().get(model, model)))):
        _prepared(model)
        return ask()


@st.cache_resource(max_entries=8, show_spinner=False)
def _prepared(model: str) -> None:
    compute.prepare(model)


@door
def _ways(model: str) -> "Can":
    return compute.run(compute.can, model)


@door
def _reading(model: str, text: str | Input) -> "Reading":
    while compute.run(compute.write, model, text, LIMIT):  # others are served between two tokens
        pass
    return paced(compute.read, model, text, LIMIT)


@door
def head_view(
    model: str,
    text: str | Input,
    layer: int,
    head: int,
    unit: str,
    special: str,
    first: bool = True,
    without: tuple[str, ...] = (),
    temperature: float = 1.0,
) -> "HeadView":
    """Compute one head, layer and head from 0.

    ``first`` is False where the first token is hidden as a key; ``without`` names terms of the formula to leave out.
    """
    return compute.run(compute.view, model, text, LIMIT, layer, head, unit, special, first, without, temperature)


@door
def head_thumbnails(model: str, text: str | Input, layer: int) -> "np.ndarray":
    """Compute the thumbnails of a layer's heads, layer from 0: (H, s, s) bytes."""
    return compute.run(compute.strip, model, text, LIMIT, layer)
