"""Generate: a model writes, word by word, and one watches its attention, its mask and its cache."""

import streamlit as st

from ui import controls, link
from ui.changes import generate as writing
from ui.frame import frame
from ui.lesson import numbers, question, tries
from ui.text import say, t

frame("pages/generate.py")
question("generate")
text = writing.prompt()
asked = writing.choices(text)
controls.token_count(asked.model, text)
number = writing.reach(asked)
now = writing.watched(asked, number)
writing.stage(now)

st.subheader(t("generate.mask_title"), anchor=False)
writing.mask(now)

st.subheader(t("generate.cache_title"), anchor=False)
say("generate.cache_intro")
writing.saved(now)

st.subheader(t("generate.size_title"), anchor=False)
say("generate.size_intro")
writing.sizes(asked)

st.subheader(t("generate.pool_title"), anchor=False)
say("generate.pool_intro")
writing.fewer(now)

tries("generate")
writing.files(now)
numbers(lambda: writing.tables(now), file="generate")
link.publish()
