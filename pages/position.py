"""Position: attention does not know the order; five ways to tell it; what becomes of them in longer texts."""

import streamlit as st

from ui import controls, link
from ui.frame import frame
from ui.lesson import numbers, question, tries
from ui.lessons import position as lesson
from ui.text import say, t

frame("pages/position.py")
question("position")
say("position.intro")
text = controls.sentence_box()
asked = lesson.shuffle_controls(text)
lesson.shuffled(asked)

st.subheader(t("position.ways_title"), anchor=False)
lesson.way(asked)

st.subheader(t("position.turn_title"), anchor=False)
say("position.turn_intro")
turn = lesson.turn_controls(text)
lesson.turned(turn)

st.subheader(t("position.length_title"), anchor=False)
say("position.length_intro")
long = lesson.length_controls()
lesson.lengths(long)

tries("position")
numbers(lambda: lesson.tables(asked, turn, long), file="position")
link.publish()
