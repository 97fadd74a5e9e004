"""A picture map of a layer with four windows, one of them rolled round the edge; says which window was chosen."""

import numpy as np
import streamlit as st

from attention_core.windows import Windows
from ui.components.picture_map import picture_map
from ui.text import words

cut = Windows(4, 4, 2, 2, 1)
window = st.session_state.setdefault("chosen", 3)
owner = np.zeros((4, 4), dtype=np.int32)
for number in range(cut.count):
    row, column = cut.places(number).T.numpy()
    owner[row, column] = number
tokens = cut.tokens(window)
allowed = cut.allowed(window).numpy()
weights = allowed / allowed.sum(-1, keepdims=True)
labels = [token.label for token in tokens]
picked = picture_map(
    {
        "view": f"window-{window}",
        "param": "query",
        "pinned": None,
        "queries": labels,
        "keys": labels,
        "default": 0,
        "grid": [4, 4],
        "cell": [0.25, 0.25],
        "window": window,
        "file": "map",
        "words": words("picture_map"),
    },
    {
        "picture": np.full((16, 16, 3), 200, dtype=np.uint8),
        "weights": weights,
        "allowed": allowed,
        "places": cut.places(window).numpy().astype(np.int32),
        "owner": owner,
    },
    key="map",
)
if picked.window is not None and picked.window != window:
    st.session_state["chosen"] = picked.window
    st.rerun()
st.text(f"window {window}")
