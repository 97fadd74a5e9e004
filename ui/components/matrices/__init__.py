"""The matrices of one stage of attention: point at a number, and see what it came from, with its arithmetic."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("matrices")


def matrices(
    meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str, on_edit: Callable[[], None] = lambda: None
) -> Any:  # noqa: ANN401
    """Show one stage; hovering, the cell cursor and the pinned word work in the browser alone.

    Args:
        meta: `view`, `param`, `pinned`, `queries`, `keys` as in `token_links`; `stage` (an id: another one begins with
            its own cell); `kind`: "single" (one matrix), "product" (the third matrix is the first times the second,
            plus `bias`), "scale" (the second is the first times `factor`) or "softmax" (the second is the softmax of
            each row of the first); `matrices`: for each `id` (of its array), `name` ("W_Q": what follows _ is set low),
            `rows`, `columns` (names; empty for long vectors), `colour` ("weights" or "scores"), `edit` (whether its
            numbers can be changed), `words` (whether its rows are the sentence's words, so that a click pins one),
            `cell` (how one number is called, with {row} and {column}); `inner`: names of what is summed over; `at`:
            the cell to begin with, [row, column]; `formula`, `aside` (texts beside the matrices); `scaling` (the
            division in words, for "scale"); `move` (true: draw how the word moves); `refused` (why the last number was
            not taken, or None); `words` (the section `matrices` of the texts).
        arrays: (R, C) for each matrix; optional `bias` (C,); `targets` int (T,), and for `move` also `cosines` (T, 2),
            `places` (T, T, 2), `ends` (T, 2) of the core's movements, and `pulls` (T, T), the weights.
        key: Streamlit's key of this element; in `on_edit`, `st.session_state[key].edited` is a dict: `matrix`, `row`,
            `column` and `text`, which is as it was typed.
        on_edit: Called when a number was typed.

    Returns:
        The mount's result; `edited` in the run after an edit, else None.
    """
    return _mount(data=pack(meta, **arrays), key=key, on_edited_change=on_edit)
