"""Losses that grow step by step, of two layers and several seeds; drawn on in place, so that nothing flickers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ui.components.payload import mount, pack

_mount = mount("loss_race")


def loss_race(meta: dict[str, Any], arrays: Mapping[str, np.ndarray], *, key: str) -> Any:  # noqa: ANN401
    """Show how losses fall.

    Args:
        meta: `names` (of the two layers, orange and accent), `seeds` (R numbers), `total` (steps in all),
            `top` (end of the axis of losses), `words` (`step`, `seed`, `alt`).
        arrays: `losses` float (2, R, L): of each layer and seed after 0, 1, … L − 1 steps.
        key: Streamlit's key of this element.

    Returns:
        The mount's result.
    """
    return _mount(data=pack(meta, **arrays), key=key)
