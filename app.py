"""Home: a sentence, and at once a true picture of which word looks at which."""

import streamlit as st

from ui import controls, link
from ui.compute import head_view
from ui.frame import doors, frame
from ui.show import focus, links, sentence_of
from ui.take_away import take_away
from ui.text import say

frame("app.py")
say("home.intro")
text = controls.sentence_box()
layer, head = controls.BEST_HEAD["minilm"]
view = head_view("minilm", text, layer - 1, head - 1, "token", "shown")
query, key = focus(view)
sentence_of(view, query, key, layer=layer, head=head)
left, right = st.columns([3, 2], gap="large")
with left:
    links({head - 1: view}, view="home", pinned=query)
    controls.token_count("minilm", text)
    controls.reading_line("minilm", text)
with right:
    say("home.what")
    doors()
take_away("minilm", text, layer - 1, {head - 1: view})
link.publish()
