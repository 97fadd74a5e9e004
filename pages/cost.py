"""Cost: what it costs that every word looks at every other one, how far news travels, and real layers timed live."""

import streamlit as st

from ui import controls, link
from ui.frame import frame
from ui.lesson import numbers, question, tries
from ui.lessons import cost as lesson
from ui.text import say, t

frame("pages/cost.py")
question("cost")
say("cost.intro")
sizes = lesson.size_controls()
left, right = st.columns([3, 2], gap="large")
with left:
    lesson.table(sizes)
with right:
    lesson.square(sizes)
lesson.curves(sizes)

st.subheader(t("cost.walk_title"), anchor=False)
say("cost.walk_intro")
text = controls.sentence_box()
lesson.walks(text, sizes)

st.subheader(t("cost.time_title"), anchor=False)
say("cost.time_intro")
asked = lesson.time_controls(sizes)
lesson.times(asked, sizes)

st.subheader(t("cost.memory_title"), anchor=False)
lesson.memory(sizes)

tries("cost")
numbers(lambda: lesson.tables(sizes, asked), file="cost")
link.publish()
