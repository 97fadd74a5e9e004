"""A text that a model writes: the prompt, and what is new, token by token."""

from collections.abc import Callable
from typing import Any

from ui.components.payload import mount, pack

_mount = mount("written_text")


def written_text(meta: dict[str, Any], *, key: str, on_pick: Callable[[], None] = lambda: None) -> Any:  # noqa: ANN401
    """Show the text so far; a click on a new token goes back to the step that has just read it.

    Args:
        meta: `prompt` (its text), `new` (texts of the new tokens), `titles` (what is said of each on pointing at it),
            `over` (whether nothing comes after), `words` (`alt`, `new`).
        key: Streamlit's key of this element; in `on_pick`, `st.session_state[key].picked` is a number of new tokens.
        on_pick: Called when a token is picked.

    Returns:
        The mount's result.
    """
    return _mount(data=pack(meta), key=key, on_picked_change=on_pick)
