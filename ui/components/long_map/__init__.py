"""One head's map of a long text in tiles, with the text beside it: what a tile looks at is lit up there."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("long_map")


def long_map(
    meta: dict[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    key: str,
    on_region: Callable[[], None] = lambda: None,
    on_pick: Callable[[], None] = lambda: None,
) -> Any:  # noqa: ANN401
    """Show a map; dragging over a part of it asks for that region, a click picks a tile. Hovering stays in the browser.

    Args:
        meta: `region` (first query, the one after the last, the same for keys, from 0), `sizes` (queries and keys of a
            tile), `picked` (the row and the column picked), `log` (logarithmic colours), `queries` and `keys` (the text
            of each tile; `keys` is None where it is the same), `words` (`alt`, `query`, `key`, `weight`, `token`,
            `tokens`, `asks`, `looks`, `closed`).
        arrays: `weights` float (A, B); `allowed` bool (A, B), False where no query of a tile may look at any key of it.
        key: Streamlit's key of this element; `st.session_state[key]` has `region` (first and last row, first and last
            column, of tiles) in `on_region`, `picked` (row, column) in `on_pick`.
        on_region: Called when a part was dragged over.
        on_pick: Called when a tile is picked.

    Returns:
        The mount's result.
    """
    return _mount(data=pack(meta, **arrays), key=key, on_region_change=on_region, on_picked_change=on_pick)
