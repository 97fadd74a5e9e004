"""Compare: two to four panes side by side, what is between two of them, and a map of all heads."""

import streamlit as st

from ui import link
from ui.explorer import compare
from ui.frame import frame
from ui.lesson import numbers
from ui.text import heading, say

frame("pages/compare.py")
say("compare.intro")
with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
    compare.presets()
    count = compare.count_choice()
    unit, special, first, show = compare.display()
columns = compare.places(count)
panes = compare.panes(columns)
views = [compare.view(pane, unit, special, first) for pane in panes]
compare.pictures(columns, panes, views, show, log=first == "log")

st.divider()
heading("compare.between")
pair = compare.pair_choice(count)
compare.between(panes, views, pair, (unit, special, first))

st.divider()
heading("compare.map")
say("compare.map_intro")
colour = compare.colour_choice()
compare.all_heads(panes, colour)
compare.give_away(panes, views, unit, show, log=first == "log")
numbers(lambda: compare.tables(panes, views, pair), file="gaze-compare")
link.publish()
