"""A picture twice: on the left a patch is chosen that looks, on the right is where it looks."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("picture_map")


def picture_map(
    meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str, on_window: Callable[[], None] = lambda: None
) -> Any:  # noqa: ANN401
    """Show the weights between the patches of a picture; pointing and choosing a patch stay in the browser.

    Args:
        meta: `view`, `param`, `pinned` as in `token_links`; `queries` and `keys` (the labels of the N tokens);
            `default` (the token that looks while none is chosen); `grid` (rows and columns); `cell` (height and width
            of a patch, as a share of the picture's); `window` (the one that is shown, of a layer with several; else
            None); `file` (the PNG's name, without ending); `words`.
        arrays: `picture` uint8 (h, w, 3); `weights` float (N, N); `allowed` bool (N, N); `places` int (N, 2): row and
            column of each token in the grid, −1 for one that is no patch; `owner` int (rows, columns): each patch's
            window.
        key: Streamlit's key of this element; in `on_window`, `st.session_state[key].window` is the window.
        on_window: Called when a patch of another window is chosen.

    Returns:
        The mount's result; `window` is the window in the run after it was chosen, else None.
    """
    return _mount(data=pack(meta, **arrays), key=key, on_window_change=on_window)
