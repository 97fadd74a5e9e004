"""Picture: a model that sees, and where each patch of a picture looks."""

import streamlit as st

from ui import link
from ui.explorer import picture as explorer
from ui.frame import frame
from ui.lesson import question

frame("pages/picture.py")
question("picture")
model = explorer.model_choice()
picture = explorer.picture_choice()
read = explorer.reading(model, picture)
layer, window, way = explorer.part_choice(model, read)
head = explorer.head_choice(model, picture, read, layer, window)
st.divider()
view = explorer.look(model, picture, layer, head, way, window)
explorer.about(model, picture, view, layer)
explorer.take_away(model, picture, view, layer, head, way, window)
explorer.prompts(model)
link.publish()
