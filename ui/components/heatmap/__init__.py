"""The heat map of one head: queries are rows, keys are columns; 512 by 512 paint at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("heatmap")


def heatmap(meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str) -> Any:  # noqa: ANN401
    """Show raw scores, scaled scores or weights; hover, cell cursor and pin work in the browser alone.

    Args:
        meta: `view`, `param`, `pinned` as in `token_links`; `show` ("raw", "scaled" or "weights"); `factor` (scaled is
            raw times factor; None where there is none) and `factor_text` ("1/√32 = 0.177"); `extra` (true where `final`
            differs from the scaled score); `queries`, `keys`; `lo`, `hi` (true range of what is shown; for weights the
            bar runs from 0 to `hi`, or to 1 without it); `log` (weights in logarithmic colours); `words` (`query`,
            `key`, `raw`, `factor`, `scaled`, `final`, `weights`, `not_allowed`, `alt`; optional `too_far`: of keys
            before the query that are not allowed); optional `sink` (true where the last key is the head's sink).
        arrays: `weights` float (Q, K), 0 to 1; optional `raw` and `final` float (Q, K): the scores as they come from
            the dot product and as they enter the softmax; optional `allowed` bool (Q, K), True means may look.
        key: Streamlit's key of this element.

    Returns:
        The mount's result; it carries no values.
    """
    return _mount(data=pack(meta, **arrays), key=key)
