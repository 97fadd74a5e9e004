"""Which layer is which: local or full, and the layers of a model in which no attention is seen."""

from typing import TYPE_CHECKING

import streamlit as st

from attention_core.layers import Layers, ranges
from ui import link
from ui.compute import reading
from ui.text import note, t

if TYPE_CHECKING:
    from attention_core.compute import Reading


def untrained(read: "Reading") -> None:
    """Warn of a model with weights that were never trained."""
    if not read.pretrained:
        st.warning(t("reading.random_some" if read.missing else "reading.random"))


def layers_note(model: str, text: str) -> None:
    """Say which layers are local, where some are, and which are skipped."""
    which = reading(model, text).which
    if which.local:
        every = len(which.local) == len(which.windows)
        windows = " / ".join(str(n) for n in sorted({which.windows[n] for n in which.local}))
        note(f"layers.{'all' if every else 'some'}_local", layers=ranges(n + 1 for n in which.local), window=windows)
    if which.skipped:
        note("layers.skipped", layers=ranges(n + 1 for n in which.skipped))
    if which.others:
        note("layers.others", parts=", ".join(which.others))


def layer_line(model: str, text: str, layer: int) -> None:
    """Say of a layer (from 0) whether it is local or full, in a model that has both, and its number in the model."""
    which = reading(model, text).which
    left_out = {"window", "causal"} & {*(link.said("without") or "").split("-")}  # then it sees more than its window
    if len(which.local) not in (0, len(which.windows)) and not left_out:
        note("layers.layer", layer=layer + 1, kind=_kind(which, layer))
    if which.places[layer] != layer:
        note("show.place", place=which.places[layer] + 1)


def _kind(which: Layers, layer: int) -> str:
    window, side = which.windows[layer], "both" if which.both else "back"
    return t(f"layers.full_{side}") if window is None else t(f"layers.local_{side}", window=window)
