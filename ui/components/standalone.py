"""One file that shows components without a server: for a colleague, a web page, or a computer without Gaze."""

import base64
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from figures.colours import FONT
from ui.components.payload import HERE, pack

PAGE = """<!doctype html>
<html lang="{lang}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --st-font: {font};
  --st-background-color: #fdfcfb; --st-text-color: #13121b; --st-primary-color: #4f46e5; }}
@media (prefers-color-scheme: dark) {{ :root {{
  --st-background-color: #0f1220; --st-text-color: #e9e8f2; --st-primary-color: #7f8af7; }} }}
body {{ margin: 0 auto; max-width: 1100px; padding: 24px; font-family: var(--st-font);
  background: var(--st-background-color); color: var(--st-text-color); }}
h1 {{ font-size: 22px; }} h2 {{ font-size: 16px; margin: 32px 0 12px; }}
p {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
{css}
</style>
<h1>{title}</h1>
<p>{text}</p>
{sections}
<script type="module">
{shared}
const views = {{
{modules}
}};
const bytes = Uint8Array.from(atob("{data}"), letter => letter.charCodeAt(0)), {{ meta, arrays }} = unpack(bytes);
meta.parts.forEach((part, n) => {{
  const parentElement = document.querySelectorAll("section")[n];
  const own = Object.fromEntries(Object.entries(part.arrays).map(([name, at]) => [name, arrays[at]]));
  views[part.name]({{ data: {{ meta: part.meta, arrays: own }}, parentElement }});
}});
</script>
</html>
"""


class Part(NamedTuple):
    """A component on the page.

    Attributes:
        heading: Written above it.
        name: The component's folder.
        meta: As the component takes it.
        arrays: As the component takes them; an array that several parts have is written once.
    """

    heading: str
    name: str
    meta: dict[str, Any]
    arrays: Mapping[str, np.ndarray]


def standalone(title: str, text: str, parts: Sequence[Part], *, lang: str) -> str:
    """Return a page of HTML that needs no other file and no network, in which hovering and pinning work as in the app.

    Args:
        title: Of the page.
        text: Written below the title; shown literally, like the title and the headings.
        parts: What it shows, one below the other.
        lang: The language of the words.
    """
    kept: dict[tuple, tuple[str, np.ndarray]] = {}
    told = []
    for part in parts:
        own = {}
        for name, array in part.arrays.items():
            same = (array.__array_interface__["data"], array.shape, array.dtype.str)
            own[name] = kept.setdefault(same, (f"a{len(kept)}", array))[0]
        told.append({"name": part.name, "meta": part.meta | {"param": None}, "arrays": own})
    data = base64.b64encode(pack({"parts": told}, **dict(kept.values()))).decode()
    names = list(dict.fromkeys(part.name for part in parts))
    roots = [f'<div class="gaze {part.name}" data-gaze="{part.name}"></div>' for part in parts]
    sections = "\n".join(
        f"<section><h2>{escape(part.heading)}</h2>{root}</section>" for part, root in zip(parts, roots, strict=True)
    )
    return PAGE.format(
        lang=lang,
        font=FONT,
        title=escape(title),
        text=escape(text),
        css="\n".join(_read("shared/shared.css", *(f"{name}/{name}.css" for name in names))),
        sections=sections,
        shared=_bare(*_read("shared/shared.js")),
        modules="\n".join(f"{name}: (() => {{\n{_module(name)}\n}})()," for name in names),
        data=data,
    )


def _module(name: str) -> str:
    main = f"{name}/{name}.js"
    others = sorted(f"{name}/{path.name}" for path in (HERE / name).glob("*.js") if path.name != f"{name}.js")
    code = re.sub(r"^export default function", "return function", "\n".join(_read(*others, main)), flags=re.MULTILINE)
    return _bare(code)


def _bare(code: str) -> str:
    """Return what modules say without their imports and exports, since here all of it stands in one file."""
    return re.sub(r"^(import .*\n|export )", "", code, flags=re.MULTILINE)


def _read(*paths: str) -> list[str]:
    return [(HERE / path).read_text("utf-8") for path in paths]
