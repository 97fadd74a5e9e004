"""Fire a component's event in AppTest, which has no door for it (two private names: AppTest._tree and AppTest._run)."""

import json


def fire(page, key, event, value):
    """Return the page after a component's trigger."""
    element = next(e for e in page.get("bidi_component") if e.key == key)
    states = page._tree.get_widget_states()
    state = states.widgets.add()
    state.id = f"$$STREAMLIT_INTERNAL_KEY_{element.proto.id}__events"
    state.json_trigger_value = json.dumps([{"event": event, "value": value}])
    return page._run(states)
