"""All heads: every head of a model on one wall, with what it does; one of them large beside it."""

import streamlit as st

from ui import controls, inputs, link
from ui.compute import head_view
from ui.explorer import all_heads as explorer
from ui.explorer.one_map import one_map
from ui.frame import frame
from ui.lesson import numbers
from ui.show import heat, links
from ui.take_away import take_away
from ui.text import heading, say

frame("pages/all_heads.py")
say("all_heads.intro")
text = controls.sentence_box()
with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
    model = controls.model_choice()
    text = inputs.reading_choice(model, text)
    seen = explorer.all_heads(model, text)
    order = explorer.order_choice(seen)
    shown = explorer.shown_choice(seen, order)
controls.token_count(model, text)
inputs.reading_notes(model, text)

left, right = st.columns([3, 2], gap="large")
with left:
    layer, head = explorer.wall(model, text, seen, shown)
    explorer.definitions()
view = head_view(model, text, layer, head, "token", "shown")
with right:
    explorer.about(model, text, seen, layer, head)
    heat(view, "weights", view=f"{model}-wall{inputs.suffix(text)}", several=True)
heading("sentence.links")
links({head: view}, view=f"{model}-wall{inputs.suffix(text)}")
one_map(model, text, layer, head)
take_away(model, text, layer, {head: view})
numbers(lambda: explorer.tables(seen), file="gaze-all-heads")
link.publish()
