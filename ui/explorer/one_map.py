"""All heads as one map: several ways to add them up, beside the one head that is chosen."""

from typing import TYPE_CHECKING

import streamlit as st

from attention_core import compute
from attention_core.inputs import Input
from ui import controls, link
from ui.compute import LIMIT, door, head_view, reading
from ui.pick import pick
from ui.show import heat, sink_line
from ui.take_away import take_map
from ui.text import note, say, t

if TYPE_CHECKING:
    from attention_core.views import HeadView


@door
def _map(model: str, text: str | Input, way: str, layer: int, head: int, first: bool) -> "HeadView | None":
    from attention_core import one_map as job

    layers = {"layer": [layer], "norm": []}.get(way, range(reading(model, text).layers))
    maps = [compute.run(job.layer_map, model, text, LIMIT, way, n) for n in layers]
    if way == "flow":
        maps = [compute.run(job.flow_row, maps, n) for n in range(len(maps[0]))]
    try:
        return compute.run(job.shown, model, text, LIMIT, way, maps, layer, head, first=first)
    except LookupError:
        return None


def one_map(model: str, text: str | Input, layer: int, head: int) -> None:
    """Ask whether and how all heads are to be one map, and draw it beside the chosen head (from 0)."""
    from attention_core.aggregate import FLOW_LIMIT
    from attention_core.one_map import WAYS

    asked = link.restore("one_map", False, link.switch)
    st.toggle(t("one_map.title"), key="one_map")
    if not asked:
        return
    with st.container(horizontal=True, gap="medium"):
        way = pick("one_map.way", WAYS, "mean", name=lambda way: t(f"one_map.{way}"))
        first = controls.first_choice()
    if way in ("rollout", "flow") and getattr(text, "kind", "") == "cross":
        say("inputs.no_rollout")
        way = "mean"
    tokens = reading(model, text).longest
    if way == "flow" and tokens > FLOW_LIMIT:
        say("one_map.too_long", tokens=tokens, limit=FLOW_LIMIT)
        way = "rollout"
    say(f"one_map.{way}_means", layer=layer + 1, head=head + 1)
    found = _map(model, text, way, layer, head, first != "hidden")
    if found is None:
        note("one_map.no_projection")
    left, right = st.columns(2, gap="large")
    view = f"one-{model}"
    with left:
        note("one_map.chosen", layer=layer + 1, head=head + 1)
        plain = head_view(model, text, layer, head, "token", "shown", first != "hidden")
        heat(plain, "weights", view=view, key=f"{view}-head", log=first == "log", several=True)
        if plain.hidden.any():
            note("show.hidden", share=f"{plain.hidden.mean():.0%}")
    with right:
        if found is not None:
            note(f"one_map.{way}")
            name = t(f"one_map.{way}_bar")
            heat(found, "weights", view=view, key=f"{view}-all", log=first == "log", name=name)
            sink_line(found, "sinks")
            if found.hidden.any():
                note(f"one_map.{way}_hidden", share=f"{found.hidden.mean():.0%}")
    if found is not None:
        take_map(found, t(f"one_map.{way}"), f"gaze-{way}", log=first == "log")
