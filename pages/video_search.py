"""Video search: Query, Key and Value as a video service, then the same inside a sentence."""

import streamlit as st

from ui import controls, link
from ui.frame import frame
from ui.lesson import numbers, question, tries
from ui.lessons.video_search import bridge, found, how, query_box, search_choice, tables, understood_line, wall
from ui.text import heading, say, t

frame("pages/video_search.py")
question("video_search")
query = query_box()
with st.container(horizontal=True, gap="medium", vertical_alignment="top"):
    tags, temperature, hard = search_choice()
seen = found(query, tags, temperature, hard)
understood_line(seen)
wall(seen, tags, temperature, hard)
how(tags)
st.divider()
heading("video_search.bridge_title")
say("video_search.bridge")
text = controls.sentence_box()
controls.token_count("minilm", text)
bridge(text)
st.page_link("pages/sentence.py", label=t("video_search.bridge_more"))
tries("video_search")
numbers(lambda: tables(seen), file="gaze-video-search")
link.publish()
