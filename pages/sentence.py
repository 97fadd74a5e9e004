"""Sentence: who looks at whom in one head of a real model, from three sides."""

import streamlit as st

from ui import controls, inputs, link
from ui.compute import head_view
from ui.explorer.rotation import rotation
from ui.formula import changed_line, formula_choice
from ui.frame import frame
from ui.layers import layer_line
from ui.show import heat, links, row, shape_line
from ui.take_away import take_away
from ui.text import heading, say

frame("pages/sentence.py")
say("sentence.intro")
text = controls.sentence_box()
with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
    model = controls.model_choice()
    text = inputs.reading_choice(model, text)
    layer = controls.layer_choice(model, text)
    also = controls.overlay_choice(model, text)
    formula = st.container(width="content")
controls.token_count(model, text)
inputs.reading_notes(model, text)
head = controls.head_choice(model, text, layer)
with formula:
    without = formula_choice(model, text, layer, head)
with st.container(horizontal=True, gap="medium"):
    unit, special = controls.unit_choice()
    first = controls.first_choice()
    show = controls.show_choice()
    text = inputs.segments_choice(text)

heads = {
    n: head_view(model, text, layer, n, unit, special, first != "hidden", without) for n in dict.fromkeys((head, *also))
}
view = f"{model}-{unit}-{special}{inputs.suffix(text)}"
left, right = st.columns(2, gap="large")
with left:
    heading("sentence.links")
    links(heads, view=view)
with right:
    heading("sentence.heat")
    heat(heads[head], show, view=view, log=first == "log")
inputs.shares_line(model, text, layer, head, heads[head], special, without)
row(heads[head], view=view)
rotation(model, text, layer, head)
take_away(model, text, layer, heads, show=show, log=first == "log", unit=unit, changes=(without, 1.0))
controls.reading_line(model, text)
shape_line(heads[head])
layer_line(model, text, layer)
changed_line(without)
link.publish()
