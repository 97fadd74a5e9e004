"""The heads of a layer as thumbnails, of which one is chosen."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("head_strip")


def head_strip(
    meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str, on_pick: Callable[[], None] = lambda: None
) -> Any:  # noqa: ANN401
    """Show H small maps as a radio group.

    Args:
        meta: `chosen` (head from 0), `names` (H labels), `words` (`alt`, `group` with {heads} and {group} in it);
            `groups` (how many key-value heads they share; H, one each, without it).
        arrays: `tiles` uint8 (H, h, w): 0 is the page's background, 255 the accent.
        key: Streamlit's key of this element; in `on_pick`, `st.session_state[key].picked` is the head.
        on_pick: Called when a head is picked.

    Returns:
        The mount's result; `picked` is the head in the run after a pick, else None.
    """
    return _mount(data=pack(meta, **arrays), key=key, on_picked_change=on_pick)
