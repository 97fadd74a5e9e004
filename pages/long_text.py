"""Long text: a whole chapter on one map, and any part of it down to single tokens."""

import streamlit as st

from ui import controls, link
from ui.explorer import long_text as explorer
from ui.frame import frame
from ui.layers import layer_line
from ui.text import say

frame("pages/long_text.py")
say("long_text.intro")
text = explorer.text_choice()
with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
    model = controls.model_choice()
    layer = controls.layer_choice(model, controls.EXAMPLE)
read = explorer.begin(model, text)
controls.model_notes(model, controls.EXAMPLE)
explorer.go_through(model, text, read, layer)
region, log = explorer.region_choice(read)
head = explorer.head_choice(model, read, layer, region)
st.divider()
found = explorer.draw(read, layer, head, region, log=log)
layer_line(model, controls.EXAMPLE, layer)
explorer.strongest(read, found)
explorer.take_away(model, read, layer, head, found, log=log)
link.publish()
