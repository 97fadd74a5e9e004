"""What is kept and what is computed in a step of writing: a cell for each token's key and value."""

from typing import Any

from ui.components.payload import mount, pack

_mount = mount("cache_cells")


def cache_cells(meta: dict[str, Any], *, key: str) -> Any:  # noqa: ANN401
    """Show two rows of cells, with a cache and without one.

    Args:
        meta: `labels` (the tokens that have been read), `fresh` (how many of them this step reads for the first time),
            `words` (`with`, `without`, `kept`, `new`, `again`, `alt`).
        key: Streamlit's key of this element.

    Returns:
        The mount's result.
    """
    return _mount(data=pack(meta), key=key)
