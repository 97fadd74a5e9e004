"""FlashAttention tile by tile: the scores, the tile at work, and each row's maximum, sum and partial context."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("flash_tiles")


def flash_tiles(meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str) -> Any:  # noqa: ANN401
    """Show the tiles one after the other; going forward and back stays in the browser.

    Args:
        meta: `tokens` (T labels), `rows` and `columns` (first query, or key, of each of S tiles and the one after the
            last), `words` (`alt`, `play`, `back`, `forward`, `step`, `start`, `word`, `maximum`, `total`, `context`).
        arrays: `scores` float (T, T); `maximum` and `total` float (S, T); `context` float (S, T, N), its first numbers.
        key: Streamlit's key of this element.

    Returns:
        The mount's result.
    """
    return _mount(data=pack(meta, **arrays), key=key)
