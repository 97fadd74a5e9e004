"""Why √dₖ: random scores over dₖ, the same switch on a real head, and two trainings that differ in the factor alone."""

import streamlit as st

from ui import link
from ui.frame import frame
from ui.lesson import numbers, question, tries
from ui.lessons import scaling as lesson
from ui.text import say, t

frame("pages/scaling.py")
question("scaling")
say("scaling.intro")
world = lesson.world_controls()
left, right = st.columns(2, gap="large")
with left:
    lesson.spread(world)
with right:
    lesson.one_row(world)
lesson.summary(world)
lesson.curves(world)

st.subheader(t("scaling.real_title"), anchor=False)
say("scaling.real_intro")
head = lesson.head_controls()
left, right = st.columns(2, gap="large")
with left:
    lesson.head_row(head)
with right:
    lesson.head_rows(head)

st.subheader(t("scaling.learn_title"), anchor=False)
learned = lesson.race()

tries("scaling")
numbers(lambda: lesson.tables(world, head, learned), file="scaling")
link.publish()
