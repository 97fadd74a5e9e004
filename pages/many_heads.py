"""Many heads: several attentions on one sentence, joined; and which head of a real model looks at what."""

import streamlit as st

from ui import controls, link
from ui.frame import frame
from ui.lesson import numbers, question, tries
from ui.lessons import many_heads as many
from ui.text import heading, say

frame("pages/many_heads.py")
question("many_heads")
text = controls.sentence_box()
with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
    heads, size = many.size_controls()
    seed, alike = many.draw_controls()
world = many.world(text, heads, size, seed, alike, many.edits())
many.picture(world)
many.editor(world)
many.facts(heads, size)

st.divider()
heading("many_heads.real")
say("many_heads.real_intro")
model = controls.model_choice()
found = many.findings(model)
relation = many.relation_rows(found)
many.verdict(found[relation])
many.example(model, relation, found[relation])
tries("many_heads")
numbers(lambda: many.tables(world, found, relation), file="many_heads")
link.publish()
