"""What every page shares: browser tab, fonts, menu, language, presenter mode."""

from pathlib import Path

import streamlit as st

from attention_core import compute
from ui import link, models
from ui.components import page_language
from ui.registry import PAGES
from ui.text import LANGUAGES, t

ROOT = Path(__file__).parents[1]


def frame(path: str) -> None:
    """Open a page. Call it first, once, with the page's own path in the registry."""
    here = next(page for page in PAGES if page.path == path)
    link.begin(path)
    lang = link.restore("lang", _first_language(), link.one_of(*LANGUAGES))
    st.set_page_config(
        page_title=f"{t(f'pages.{here.name}')} · Gaze", page_icon=str(ROOT / "assets" / "icon.png"), layout="wide"
    )
    with st.sidebar:
        st.html('<p class="gaze-name">Gaze</p>')
        st.segmented_control(
            t("frame.language"),
            list(LANGUAGES),
            key="lang",
            format_func=LANGUAGES.get,
            label_visibility="collapsed",
            required=True,
            on_change=link.hold_all,
        )
        for group in dict.fromkeys(page.group for page in PAGES):
            st.html(f'<p class="gaze-group">{t(f"groups.{group}")}</p>')
            for page in PAGES:
                if page.group == group:
                    st.page_link(page.path, label=t(f"pages.{page.name}"), icon=page.icon)
        present = link.restore("present", False, link.switch)
        st.toggle(t("frame.present"), key="present", help=t("frame.present_help"))
    page_language(lang, present=present)
    st.title(t(f"pages.{here.name}_title"), anchor=False)
    compute.warm()
    link.notes()
    models.panel()


def doors() -> None:
    """Draw a door to every other page: its name and what is behind it."""
    for page in PAGES[1:]:
        with st.container(border=True):
            st.page_link(page.path, label=t(f"pages.{page.name}"), icon=page.icon)
            st.markdown(t(f"pages.{page.name}_door"))


def _first_language() -> str:
    # A choice made on an earlier visit, else the browser's language.
    said = st.context.cookies.get("gaze_lang") or (st.context.locale or "en").split("-")[0]
    return said if said in LANGUAGES else "en"
