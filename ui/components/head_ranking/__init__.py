"""Heads ranked by one number: the best as rows, with what they have to be compared with, and all as a picture."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("head_ranking")


def head_ranking(
    meta: dict[str, Any], values: np.ndarray, *, key: str, on_pick: Callable[[], None] = lambda: None
) -> Any:  # noqa: ANN401
    """Show rows as a radio group, and layers × heads as a picture in which any head can be picked too.

    Args:
        meta: `chosen` (row from 0); `rows`, each with `place` (from 1), `head` (layer · heads + head, from 0), `name`,
            `value` (0 to 1), `cells` (a text for each of `columns`), `marks` (a number from 0 to 1, or None, for each
            of `compared`) and `href` (a link to the head, opened in a tab of its own, or None); `columns`, `compared`
            (names); `value` (name of the values); `words` (`head` with {layer} and {head} in it, `map`, `open`, `alt`).
        values: float (L, H), from 0 to 1, of all heads.
        key: Streamlit's key of this element; in `on_pick`, `st.session_state[key].picked` is the head.
        on_pick: Called when a head is picked, in a row or in the picture.
    """
    return _mount(data=pack(meta, values=values), key=key, on_picked_change=on_pick)
