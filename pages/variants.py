"""Variants: the same result in tiles, patterns and approximations in place of the square, one's own pattern."""

import streamlit as st

from ui import controls, link
from ui.frame import frame
from ui.lesson import numbers, question, tries
from ui.lessons import variants as lesson
from ui.text import say, t

frame("pages/variants.py")
question("variants")
say("variants.intro")
text = controls.sentence_box()
where = lesson.head_controls(text)

st.subheader(t("variants.flash_title"), anchor=False)
say("variants.flash_intro")
flash = lesson.flash(where)

st.subheader(t("variants.ways_title"), anchor=False)
say("variants.ways_intro")
asked = lesson.way_controls(where)
lesson.way(asked)

st.subheader(t("variants.own_title"), anchor=False)
say("variants.own_intro")
own = lesson.own(where)

say("variants.shared")
st.page_link("pages/generate.py", label=t("pages.generate"), icon=":material/edit_note:")
tries("variants")
numbers(lambda: lesson.tables(where, flash, asked, own), file="variants")
link.publish()
