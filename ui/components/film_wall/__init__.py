"""What is found, as large as its weight: films (posters) or words (cards), and what comes back, blended."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("film_wall")


def film_wall(meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str) -> Any:  # noqa: ANN401
    """Show K things that a query looks at; hovering, and choosing another of several queries, stay in the browser.

    Args:
        meta: `view`, `param`, `pinned`, `queries`, `keys` (titles) as in token_links; `default` (the query that is
            shown while none is pinned or hovered); `muted` (for each thing whether it is drawn dimmer); `groups` (a
            name for each column of things that belong together, or empty); `group` (for each thing its column, from
            0); `posters` (SVG source for each thing, of our own; empty: the title on a card); `tags` (lists of words,
            or empty); `used` (how many of them make the key); `about` (a description each, or empty); `factor_text`;
            `most` (how many contributions are written out); `words`.
        arrays: `weights`, `raw` and `scaled` scores (Q, K); `opacity` (Q, K), with which cards painted one over the
            other are their weighted mean (posters are mixed pixel by pixel); `colours` (Q, C, 3), from 0 to 1: the
            context, shown as C blended colours; C may be 0.
        key: Streamlit's key of this element.

    Returns:
        The mount's result; it carries no values.
    """
    return _mount(data=pack(meta, **arrays), key=key)
