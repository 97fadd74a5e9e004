"""One row in full: raw score, times the factor, scaled score, softmax, weight; and the sum, which is 1."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack, slim

_mount = mount("row_in_full")


def row_in_full(meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str) -> Any:  # noqa: ANN401
    """Show the pinned (else the hovered) query's row as a table; following and sorting happen in the browser alone.

    Args:
        meta: `view`, `param`, `pinned`, `queries`, `keys`, `factor`, `factor_text` as in `heatmap`; `default` (query
            shown before anything was pinned); `steps` (names of the extra steps between scaling and softmax); `words`
            (`title` with "{query}" in it, `pick`, `key`, `raw`, `factor`, `scaled`, `weights`, `sum`, `hidden`, `sink`,
            `more`, `alt`, `not_allowed`, `softmax`; optional `too_far`: of keys before the query that are not allowed);
            optional `borrows`: the arrays that are not given are those that a heat map lends by this name.
        arrays: `weights`, `raw`, `steps`, `allowed` as in `heatmap`; `total` float (Q,): the sum of a row's weights;
            optional `hidden` float (Q,): the weight on hidden tokens; optional `sink` float (Q,).
            Invariant: total + hidden + sink = 1, or 0 where nothing is allowed.
        key: Streamlit's key of this element.

    Returns:
        The mount's result; it carries no values.
    """
    return _mount(data=pack(meta, **slim(arrays, meta.get("factor"))), key=key)
