"""What only the browser can set: the document's language, style sheets and presenter mode. Draws nothing."""

from ui.components.payload import mount, pack

_mount = mount("page_language")


def page_language(lang: str, *, present: bool) -> None:
    """Tell the browser the page's language (kept in a cookie for the next visit) and whether type is to be large.

    Args:
        lang: "en" or "ko".
        present: Whether presenter mode is on.
    """
    _mount(data=pack({"lang": lang, "present": present}), key="page_language")
