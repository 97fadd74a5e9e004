"""How news walks from one word to another in layers of several kinds; a click on a word moves the nearer end."""

from collections.abc import Callable
from typing import Any

from ui.components.payload import mount, pack

_mount = mount("news_walk")


def news_walk(meta: dict[str, Any], *, key: str, on_ends: Callable[[], None]) -> Any:  # noqa: ANN401
    """Show the walks, one lane for each kind of layer.

    Args:
        meta: `tokens` (n words), `ends` (first and last, from 0), `lanes` (each with `kind`, `name`, `said`, `places`:
            where the news is after each step, and `layers`: how many there are in all), `words` (`alt`, `play`).
        key: Streamlit's key of this element.
        on_ends: Called after other ends were chosen; the result's `ends` are they.

    Returns:
        The mount's result.
    """
    return _mount(data=pack(meta), key=key, on_ends_change=on_ends)
