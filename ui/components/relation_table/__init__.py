"""What the best head for each relation reaches, and what that has to be compared with; one row is chosen."""

from collections.abc import Callable
from typing import Any

from ui.components.payload import mount, pack

_mount = mount("relation_table")


def relation_table(meta: dict[str, Any], *, key: str, on_pick: Callable[[], None] = lambda: None) -> Any:  # noqa: ANN401
    """Show relations as a radio group.

    Args:
        meta: `chosen` (row from 0); `rows`, each with `name`, `head`, `weight` (0 to 1), `hits` and `verdict` (texts),
            `kind` ("found", "everyone", "distance", "none") and `marks`: a number from 0 to 1, or None, for each of
            `compared`; `compared` (names of what weights are compared with); `words` (`weight`, `alt`).
        key: Streamlit's key of this element; in `on_pick`, `st.session_state[key].picked` is the row.
        on_pick: Called when a row is picked.
    """
    return _mount(data=pack(meta), key=key, on_picked_change=on_pick)
