"""A board on which a pattern is painted: who may look at whom, and who hears of whom after more layers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("pattern_board")


def pattern_board(
    meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str, on_painted: Callable[[], None]
) -> Any:  # noqa: ANN401
    """Show the board; a click, or a stroke, changes cells.

    Args:
        meta: `tokens` (T labels), `words` (`alt`, `query`, `key`, `layers`, `never`, `paint`, `one`).
        arrays: `allowed` bool (T, T); `reach` int (T, T), after how many layers a query knows of a key, 0 for never so
            far.
        key: Streamlit's key of this element; `st.session_state[key].painted` has the cells, row by row, as "0" and "1".
        on_painted: Called after a stroke.

    Returns:
        The mount's result.
    """
    return _mount(data=pack(meta, **arrays), key=key, on_painted_change=on_painted)
