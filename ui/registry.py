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
    PageInfo("pages/all_heads.py", "all_heads", "look", ":material/grid_view:"),
    PageInfo("pages/compare.py", "compare", "look", ":material/compare:"),
    PageInfo("pages/find_head.py", "find_head", "look", ":material/search:"),
    PageInfo("pages/long_text.py", "long_text", "look", ":material/article:"),
    PageInfo("pages/picture.py", "picture", "look", ":material/image:"),
    PageInfo("pages/step_by_step.py", "step_by_step", "learn", ":material/stairs:"),
    PageInfo("pages/many_heads.py", "many_heads", "learn", ":material/hub:"),
    PageInfo("pages/scaling.py", "scaling", "learn", ":material/straighten:"),
    PageInfo("pages/video_search.py", "video_search", "learn", ":material/movie:"),
    PageInfo("pages/what_if.py", "what_if", "change", ":material/content_cut:"),
    PageInfo("pages/generate.py", "generate", "change", ":material/edit_note:"),
    PageInfo("pages/cost.py", "cost", "labs", ":material/payments:"),
    PageInfo("pages/position.py", "position", "labs", ":material/rotate_right:"),
    PageInfo("pages/variants.py", "variants", "labs", ":material/grid_3x3:"),
)
