"""The heat map of one head: queries are rows, keys are columns; 512 by 512 paint at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack, slim

_mount = mount("heatmap")


def heatmap(meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str) -> Any:  # noqa: ANN401
    """Show raw scores, scaled scores or weights; hover, cell cursor and pin work in the browser alone.

    Args:
        meta: `view`, `param`, `pinned` as in `token_links`; `show` ("raw", "scaled" or "weights"); `factor` (scaled is
            raw times factor; None where there is none) and `factor_text` ("1/√32 = 0.177"); `queries`, `keys`; `lo`,
            `hi` (true range of what is shown; for weights the bar runs from 0 to `hi`, or to 1 without it); `log`
            (weights in logarithmic colours); `words` (`query`, `key`, `raw`, `factor`, `scaled`, `final`, `weights`,
            `not_allowed`, `alt`; optional `too_far`: of keys before the query that are not allowed); optional `sink`
            (true where the last of the `keys` is the head's sink); optional `lends` (a name for the arrays, by which
            `row_in_full` may borrow them).
        arrays: What is shown, float (Q, K): `weights`, `raw`, or `scaled` alone; optional the others of these, said of
            a cell that is pointed at; optional `steps` float (S, Q, K), the scores after each term beyond the factor,
            or `final` float (Q, K); optional `allowed` bool (Q, K), True means may look; `sink` float (Q,) where `meta`
            has a sink, all others being one column narrower then.
        key: Streamlit's key of this element.

    Returns:
        The mount's result; it carries no values.
    """
    return _mount(data=pack(meta, **slim(arrays, meta.get("factor"))), key=key)
