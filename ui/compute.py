"""Cached doors to attention_core. Arguments are strings and numbers; the work is done in the one compute thread."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import streamlit as st

from attention_core import compute
from attention_core.errors import ModelError, NoTokens
from ui import link
from ui.text import plain, t

if TYPE_CHECKING:
    import numpy as np

    from attention_core.compute import Reading
    from attention_core.views import HeadView

P = ParamSpec("P")
R = TypeVar("R")
LIMIT = int(os.environ.get("GAZE_MAX_TOKENS") or 512)


def door(job: Callable[P, R]) -> Callable[P, R]:
    """Let a page ask for a job: computed once for everyone, and what goes wrong is said, not raised."""
    shared = st.cache_resource(max_entries=512, show_spinner=False)(job)

    def ask(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return shared(*args, **kwargs)
        except NoTokens:
            link.publish()
            st.info(t("errors.NoTokens"))
            st.stop()
        except ModelError as error:
            link.publish()
            st.error(t(f"errors.{type(error).__name__}", model=plain(error.model), reason=plain(error.reason)))
            st.code(error.repair, language=None)
            st.stop()

    return ask


@door
def reading(model: str, text: str) -> "Reading":
    """Read a text with a model: its tokens, the model's shape, the time it took."""
    return compute.run(compute.read, model, text, LIMIT)


@door
def head_view(model: str, text: str, layer: int, head: int, unit: str, special: str) -> "HeadView":
    """Compute one head, layer and head from 0."""
    return compute.run(compute.view, model, text, LIMIT, layer, head, unit, special)


@door
def head_thumbnails(model: str, text: str, layer: int) -> "np.ndarray":
    """Compute the thumbnails of a layer's heads, layer from 0: (H, s, s) bytes."""
    return compute.run(compute.strip, model, text, LIMIT, layer)
