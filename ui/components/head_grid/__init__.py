"""A number of each head of a model, as a small coloured grid: layers are rows, heads columns."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from ui.components.payload import mount, pack

_mount = mount("head_grid")


def head_grid(
    meta: dict[str, Any],
    values: Float[np.ndarray, "L H"],
    *,
    key: str,
    on_pick: Callable[[], None] = lambda: None,
) -> Any:  # noqa: ANN401
    """Show one number a head: orange above 0, blue below, grey where there is none yet.

    Args:
        meta: `title`; `chosen` (layer · H + head, or None); `places` (decimals); `signed`
            (False: numbers are never below 0, and the accent shows them); `words` (`head`, `none`, `alt`).
        values: The numbers; NaN where there is none.
        key: Streamlit's key of this element; in `on_pick`, `st.session_state[key].picked` is layer · H + head.
        on_pick: Called when a head is picked.
    """
    return _mount(data=pack(meta, values=values), key=key, on_picked_change=on_pick)
