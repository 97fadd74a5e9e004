"""Cached doors to attention_core. Arguments are strings and numbers; the work is done in the one compute thread."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import streamlit as st

from attention_core import compute
from attention_core.errors import ModelDamaged, ModelError, ModelMissing, NoTokens
from attention_core.models.catalogue import offered
from attention_core.settings import positive
from ui import link
from ui.text import plain, t

if TYPE_CHECKING:
    import numpy as np

    from attention_core.compute import Reading
    from attention_core.views import HeadView

P = ParamSpec("P")
R = TypeVar("R")
LIMIT = max(3, int(positive("GAZE_MAX_TOKENS", 512)))


def door(job: Callable[P, R], most: int = 512) -> Callable[P, R]:
    """Let a page ask for a job: computed once for everyone, and what goes wrong is said, not raised.

    Of the results, ``most`` are kept.
    """
    shared = st.cache_resource(max_entries=most, show_spinner=False)(job)

    def ask(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return shared(*args, **kwargs)
        except NoTokens:
            st.info(t("errors.NoTokens"))
            link.stop()
        except ModelError as error:
            st.error(t(f"errors.{type(error).__name__}", model=plain(error.model), reason=plain(error.reason)))
            if isinstance(error, ModelMissing | ModelDamaged):
                st.code(error.repair, language=None)
            link.stop()

    return ask


def reading(model: str, text: str) -> "Reading":
    """Read a text with a model: its tokens, the model's shape, the time it took."""
    if not compute.loaded(model):
        with st.spinner(t("errors.loading", model=plain(offered().get(model, model)))):
            _prepared(model)
            return _reading(model, text)
    return _reading(model, text)


@st.cache_resource(max_entries=8, show_spinner=False)
def _prepared(model: str) -> None:
    compute.prepare(model)


@door
def _reading(model: str, text: str) -> "Reading":
    return compute.run(compute.read, model, text, LIMIT)


@door
def head_view(
    model: str,
    text: str,
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
def head_thumbnails(model: str, text: str, layer: int) -> "np.ndarray":
    """Compute the thumbnails of a layer's heads, layer from 0: (H, s, s) bytes."""
    return compute.run(compute.strip, model, text, LIMIT, layer)
