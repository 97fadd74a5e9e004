"""Step by step: from eight words to their context, every matrix with its arithmetic; then the same in a real head."""

import streamlit as st

from ui import controls, link
from ui.frame import frame
from ui.lesson import numbers, question, tries
from ui.lessons import step_by_step as lesson

frame("pages/step_by_step.py")
question("step_by_step")
text = controls.sentence_box()
with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
    world = lesson.world_choice()
    real, scaled = lesson.switches()
step = lesson.stepper()
walk = lesson.real_walk(text, scaled) if real else lesson.small_walk(text, world, scaled)
lesson.stage(walk, step, world=world, real=real, scaled=scaled)
lesson.remarks(walk, world=world, real=real)
tries("step_by_step")
numbers(lambda: lesson.tables(walk, step, world=world, real=real), file="step_by_step")
link.publish()
