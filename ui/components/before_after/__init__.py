"""What a model says before and after a change: two bars for each word; one may be picked."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from ui.components.payload import mount, pack

_mount = mount("before_after")


def before_after(
    meta: dict[str, Any],
    before: Float[np.ndarray, " N"],
    after: Float[np.ndarray, " N"],
    *,
    key: str,
    on_pick: Callable[[], None] = lambda: None,
) -> Any:  # noqa: ANN401
    """Show two numbers from 0 to 1 for each of some names.

    Args:
        meta: `names`; `chosen` (number of one of them, or None); `shares` (whether numbers are written in per cent);
            `words` (`before`, `after`, `alt`).
        before: The first bars.
        after: The second ones.
        key: Streamlit's key of this element; in `on_pick`, `st.session_state[key].picked` is the number of a name.
        on_pick: Called when one is picked.
    """
    return _mount(data=pack(meta, before=before, after=after), key=key, on_picked_change=on_pick)
