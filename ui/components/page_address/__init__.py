"""Keeps pinned words in the page's address when the server has changed it. Draws nothing."""

from ui.components.payload import mount, pack

_mount = mount("page_address")


def page_address(link: dict[str, str]) -> None:
    """Tell the browser that the server made the address say this.

    Args:
        link: The query parameters.
    """
    _mount(data=pack({"link": link}), key="page_address")
