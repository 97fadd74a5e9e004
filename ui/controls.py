"""The controls that pages share. Each gives its value, keeps it in the link, and stays where it is."""

import streamlit as st

from attention_core.models.catalogue import offered
from ui import link, models
from ui.components import head_strip
from ui.compute import head_thumbnails, head_view, reading
from ui.layers import layers_note, untrained
from ui.pick import pick
from ui.text import note, t, words

EXAMPLE = "I ate the cake and it was delicious"
# Where each model looks from "it" to "cake" most, counted from 1; tests/core/test_facts.py finds them again.
BEST_HEAD = {"minilm": (6, 12), "smollm2": (26, 3)}
FIRST_HEAD = (1, 1)
ONE_LINE = 240  # characters; a longer text, or one with line breaks, gets a box of several lines
MOST_OVERLAID = 4


def sentence_box(key: str = "text", label: str = "", default: str = EXAMPLE) -> str:
    """Ask for a sentence. Blank text gets a hint, and the last sentence that was not blank is shown on."""
    state, last, high = st.session_state, f"_last_{key}", f"_tall_{key}"
    text = link.restore(key, default, str)
    # A box that changes under the fingers would lose the caret: it does so only for a paste, a link, another page.
    leap = abs(len(text) - len(state.get(last, ""))) > ONE_LINE // 4
    tall = "\n" in text or (len(text) > ONE_LINE if leap else state.get(high, False))
    if tall != state.get(high):
        state[key], state[high] = text, tall
    if tall:
        st.text_area(label or t("controls.text"), key=key, height=120, placeholder=default)
    else:
        st.text_input(label or t("controls.text"), key=key, live="300ms", placeholder=default)
    if text.strip():
        state[last] = text
        return text
    note("controls.blank")
    link.keep(key, state.get(last, default))
    return state.get(last, default)


def model_choice() -> str:
    """Ask for a model, and offer others."""
    return models.choose()


def layer_choice(model: str, text: str) -> int:
    """Ask for a layer; counted from 0."""
    layers = reading(model, text).layers
    layer = link.restore("layer", BEST_HEAD.get(model, FIRST_HEAD)[0], link.whole(1, layers))
    if layers > 1:  # a hybrid may have one with attention
        st.slider(t("controls.layer"), 1, layers, key="layer", width=220)
    return layer - 1


def head_choice(model: str, text: str, layer: int) -> int:
    """Ask for a head of a layer, by its picture; all counted from 0."""
    heads = reading(model, text).heads
    head = link.restore("head", BEST_HEAD.get(model, FIRST_HEAD)[1], link.whole(1, heads))
    names = [str(n) for n in range(1, heads + 1)]
    groups = head_view(model, text, layer, head - 1, "token", "shown").groups
    meta = {"chosen": head - 1, "names": names, "groups": groups, "words": words("head_strip")}
    st.html(f'<p class="gaze-label">{t("controls.head")}</p>')
    head_strip(meta, {"tiles": head_thumbnails(model, text, layer)}, key="heads", on_pick=_pick_head)
    return head - 1


def overlay_choice(model: str, text: str) -> list[int]:
    """Ask for heads to lay over the chosen one; counted from 0."""
    heads = reading(model, text).heads
    also = link.restore("also", [], link.some_of(1, heads, MOST_OVERLAID))
    link.remind("also")
    with st.popover(t("controls.also"), help=t("controls.also_help")):
        st.pills(t("controls.also"), range(1, heads + 1), key="also", selection_mode="multi")
    return [n - 1 for n in also]


def unit_choice() -> tuple[str, str]:
    """Ask for tokens or words, and what to do with special tokens."""
    unit = pick("controls.unit", ("token", "word"), "token", on_change=link.forget)
    return unit, pick("controls.special", ("shown", "hidden", "renormalised"), "shown", on_change=link.forget)


def first_choice() -> str:
    """Ask what to do with the first token, on which many heads rest: "shown", "log" colours, or "hidden"."""
    return pick("controls.first", ("shown", "log", "hidden"), "shown")


def show_choice() -> str:
    """Ask what a map shows."""
    return pick("controls.show", ("weights", "scaled", "raw"), "weights")


def token_count(model: str, text: str) -> None:
    """Say how many tokens the text has, whose they are, and what did not fit."""
    read = reading(model, text)
    note("reading.count", tokens=len(read.labels), added=read.added)
    if read.cut:
        st.warning(t("reading.cut", tokens=read.tokens, limit=read.limit, cut=read.cut))
    model_notes(model, text)


def model_notes(model: str, text: str) -> None:
    """Say what is special about a model: weights that were not trained, or left over, and its kinds of layers."""
    read = reading(model, text)
    untrained(read)
    models.weights_note(read.missing, read.left_over)
    layers_note(model, text)


def reading_line(model: str, text: str) -> None:
    """Say where and how fast the text was read."""
    read = reading(model, text)
    note("reading.line", model=offered()[model], device=read.device, milliseconds=round(read.seconds * 1000))


def _pick_head() -> None:
    st.session_state["head"] = st.session_state["heads"].picked + 1
