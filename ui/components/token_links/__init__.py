"""Who looks at whom: two columns of tokens joined by lines as strong as the weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("token_links")


def token_links(meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str) -> Any:  # noqa: ANN401
    """Show the links of one or several heads; hover, pin and arrows work in the browser alone.

    Args:
        meta: `view` (components with the same view share the pin); `param` (name of the address parameter for the pin,
            or None); `pinned` (query index or None, used at the view's first mount); `queries` and `keys` (labels);
            `muted_queries` and `muted_keys` (booleans: drawn dimmer); `titles` (hover text by position, or None;
            `key_titles` where the keys differ); `heads` (`name`, `colour`: css or None for the accent); `least` (weight
            under which edges were left out); `down` (how many rows lower the keys begin); `words` (`queries`, `keys`,
            `none`, `alt`).
        arrays: The E edges, in any order: `query`, `key` and `head` int (E,), `weight` float (E,), 0 to 1; `head` is an
            index into `meta["heads"]`.
        key: Streamlit's key of this element.

    Returns:
        The mount's result; it carries no values.
    """
    return _mount(data=pack(meta, **arrays), key=key)
