"""All heads of a model in the plane, near one another where they behave alike; one is chosen."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("head_map")


def head_map(
    meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str, on_pick: Callable[[], None] = lambda: None
) -> Any:  # noqa: ANN401
    """Show heads as dots; hovering and the keyboard's cursor work in the browser alone, a click picks.

    Args:
        meta: `names` and `notes` (N texts: the head, and what is said of it beside); `groups` (N numbers from 0: what a
            dot's colour stands for); `colours` (for each group a css colour, the share of
            a grey, or None for the text's own colour; None instead of the list for a scale over all groups), `legend`
            (one name a group; of a scale, of its two ends); `marks` (letter and head of each pane); `words` (`hint`,
            `alt`, `png`, `svg`, `failed`).
        arrays: `places` float (N, 2).
        key: Streamlit's key of this element; in `on_pick`, `st.session_state[key].picked` is the head.
        on_pick: Called when a head is picked.

    Returns:
        The mount's result; `picked` is the head in the run after a pick, else None.
    """
    return _mount(data=pack(meta, **arrays), key=key, on_picked_change=on_pick)
