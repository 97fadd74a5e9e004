"""The one list of pages. Order here is order in the menu."""

from typing import NamedTuple


class PageInfo(NamedTuple):
    """Where a page lives, its name in ``assets/text`` (section ``pages``), its group in the menu, its icon."""

    path: str
    name: str
    group: str
    icon: str


PAGES = (
    PageInfo("app.py", "home", "look", ":material/visibility:"),
    PageInfo("pages/sentence.py", "sentence", "look", ":material/linear_scale:"),
)
