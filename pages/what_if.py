"""What if: heads switched off, links cut, formulas changed inside the model, and what the model then says."""

import streamlit as st

from ui import controls, inputs, link
from ui.changes import edits as change
from ui.changes import what_if
from ui.frame import frame
from ui.lesson import numbers, question, tries
from ui.text import heading, say

frame("pages/what_if.py")
question("what_if")
say("what_if.intro")
what_if.first_visit()
text = controls.sentence_box(default=what_if.EXAMPLE)
with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
    model = controls.model_choice()
    text = inputs.reading_choice(model, text)
    what_if.changeable(model, text)
    layer = controls.layer_choice(model, text)
    other = change.other_box()
controls.token_count(model, text)
inputs.reading_notes(model, text)
head = controls.head_choice(model, text, layer)
edits = change.edit_choice(model, text, layer, head, other)

left, right = st.columns([3, 2], gap="large")
with left:
    heading("what_if.outcome")
    aim = what_if.outcome(model, text, edits)
with right:
    heading("what_if.head")
    what_if.looked(model, text, layer, head, edits)
    what_if.later(model, text, edits, layer, head)

st.divider()
heading("what_if.matter")
say("what_if.matter_intro")
found = what_if.importance(model, text, aim, layer, head)
tries("what_if")
what_if.files(model, text, layer, head, edits)
numbers(lambda: what_if.tables(model, text, edits, aim, found), file="gaze-what-if")
link.publish()
