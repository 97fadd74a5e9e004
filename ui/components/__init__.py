"""Own views, drawn in the browser: each a Python door with its .js and .css in a folder."""

from ui.components.head_strip import head_strip
from ui.components.heatmap import heatmap
from ui.components.page_address import page_address
from ui.components.page_language import page_language
from ui.components.row_in_full import row_in_full
from ui.components.token_links import token_links

__all__ = ["head_strip", "heatmap", "page_address", "page_language", "row_in_full", "token_links"]
