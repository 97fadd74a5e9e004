"""Find a head: every head of a model, ranked by how much it looks from one word to another."""

import streamlit as st

from ui import controls, inputs, link
from ui.explorer import find_head as find
from ui.frame import frame
from ui.lesson import numbers
from ui.text import say

frame("pages/find_head.py")
say("find_head.intro")
with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
    where = find.where_choice()
    model = controls.model_choice()
inputs.encoder_note(model)
found = find.answer(where, model)
if found:
    head = find.table(found)
    found.draw(head)
    numbers(found.tables, file="find_head")
link.publish()
