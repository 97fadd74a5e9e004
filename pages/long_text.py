"""Long text: a whole chapter on one map, and any part of it down to single tokens."""

import streamlit as st

from ui import controls, link
from ui.explorer import long_text as explorer
from ui.frame import frame
from ui.text import say

frame("pages/long_text.py")
say("long_text.intro")
text = explorer.text_choice()
with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
    model = controls.model_choice()
    choice = st.container(width="content")
read = explorer.begin(model, text)
with choice:
    layer = explorer.layer_choice(model, read)
explorer.go_through(model, text, read, layer)
region, log = explorer.region_choice(read)
head = explorer.head_choice(model, read, layer, region)
st.divider()
found = explorer.draw(read, layer, head, region, log=log)
explorer.strongest(read, found)
explorer.take_away(model, read, layer, head, found, log=log)
link.publish()
