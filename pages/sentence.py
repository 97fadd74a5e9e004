"""Sentence: who looks at whom in one head of a real model, from three sides."""

import streamlit as st

from ui import link
from ui.compute import head_view
from ui.controls import head_choice, layer_choice, model_choice, reading_line, sentence_box, show_choice, unit_choice
from ui.frame import frame
from ui.show import heat, links, row, shape_line
from ui.text import heading, say

frame("pages/sentence.py")
say("sentence.intro")
text = sentence_box()
with st.container(horizontal=True, gap="large"):
    model = model_choice()
    layer = layer_choice(model, text)
    unit, special = unit_choice()
reading_line(model, text)
head, also = head_choice(model, text, layer)

heads = {n: head_view(model, text, layer, n, unit, special) for n in (head, *also)}
view = f"{model}-{unit}-{special}"
left, right = st.columns(2, gap="large")
with left:
    heading("sentence.links")
    links(heads, view=view)
with right:
    heading("sentence.heat")
    show = show_choice()
    heat(heads[head], show, view=view)
heading("sentence.row")
row(heads[head], view=view)
shape_line(heads[head])
link.publish()
