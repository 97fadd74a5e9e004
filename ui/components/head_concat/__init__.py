"""Many heads side by side: each one's weights as a map, the contexts joined block by block, and the output."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("head_concat")


def head_concat(
    meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str, on_pick: Callable[[], None] = lambda: None
) -> Any:  # noqa: ANN401
    """Show H heads of size D on T words. Pointing at a map, a block or a bar lights its head; no traffic.

    Args:
        meta: `labels` (T words), `chosen` (whose row is shown, from 0), `colours` (H css colours, None for that of
            text), `words` (`row`, `weights`, `joined`, `output`, `head`, `number`, `of_output`, `hint`, `alt`).
        arrays: `weights` (H, T, T), `values` (H, T, D), `joined` (T, H·D), `parts` (T, H, M): what each head adds to
            the M numbers of the output.
        key: Streamlit's key of this element; in `on_pick`, `st.session_state[key].picked` is the word.
        on_pick: Called when another word is picked; the picture does not wait for it.
    """
    return _mount(data=pack(meta, **arrays), key=key, on_picked_change=on_pick)
