"""Which model: those that are here, others that are worth getting, and getting them while everybody goes on reading."""

import uuid

import streamlit as st

from attention_core.errors import ModelError
from attention_core.models import hub
from attention_core.models.catalogue import Listed, is_path, listed, offered, source
from attention_core.models.optional import OPTIONAL, command, installed
from attention_core.models.sees import sees, that_read
from attention_core.settings import settings
from ui import link
from ui.compute import BEFORE, FAILED, LAST, NEXT, OF_A_MODEL, as_it_was, failed, ready
from ui.text import note, plain, say, shortened, t

USUAL = "minilm"
FEW = 4  # models that stand side by side; more are a list that can be searched
# What the reader's visit knows: the model a link asked for, the one that is fetched, what each showed when it was left,
# who is waiting, and how often the list was closed for them.
WANTED, GETTING, KEPT = "_wanted", "_getting", "_kept_of_models"
WHO, CLOSED = "_who", "_closed"


def choose(models: dict[str, str] | None = None, usual: str = USUAL) -> str:
    """Ask for a model, and offer others. One that can't be opened says why, and the one before it stays.

    Args:
        models: The title of each that the page can show, by its name; by default all that read.
        usual: The one that is shown at first.
    """
    models, state = that_read() if models is None else models, st.session_state

    def parse(said: str) -> str:
        if said not in models and sees(said):
            link.tell("picture.elsewhere", model=said)
            return usual
        return link.one_of(*models)(said)

    if (chosen := state.pop(NEXT, {})).get("model") in models:
        link.forget("model", *OF_A_MODEL)
        link.choose(chosen)
    model = link.restore("model", usual, parse)
    picker("model", models, *OF_A_MODEL)
    _others(offered())
    before = next((name for name in (state.get(LAST), usual) if name in models and name != model), None)
    try:
        ready(model)
    except ModelError as error:
        if before is None:
            failed(error)
            link.stop()
        state[FAILED], state[NEXT] = error, as_it_was(before)
        st.rerun()
    if model != state.get(LAST):
        state[BEFORE], state[LAST] = before, model
    return model


def coming() -> str:
    """Return the model that was just asked for by a button, if any: the one that :func:`choose` is about to show."""
    return st.session_state.get(NEXT, {}).get("model", "")


def picker(key: str, models: dict[str, str], *forgotten: str) -> None:
    """Draw the control for a model; another model forgets the values of the controls named."""
    labels = {name: title if [*models.values()].count(title) == 1 else name for name, title in models.items()}
    about = {"key": key, "help": t("controls.model_help")}
    change = {"on_change": _another, "args": (key, *forgotten)}
    if len(models) <= FEW:
        name = lambda model: plain(labels[model])  # noqa: E731
        st.segmented_control(t("controls.model"), list(models), format_func=name, required=True, **about, **change)
    else:
        st.selectbox(t("controls.model"), list(models), format_func=labels.get, width=260, **about, **change)


def _another(key: str, *forgotten: str) -> None:
    """Let another model begin with its own values: those it had when it was left, or the usual ones."""
    state = st.session_state
    kept, shown = state.setdefault(KEPT, {}), link.published(key, *forgotten)
    if before := shown.pop(key, ""):
        kept[key, before] = shown
    link.forget(*forgotten)
    link.choose(kept.get((key, state[key]), {}))


def panel() -> None:
    """Say at the top of the page which model a link asks for, how far one has come, or why it can't be opened."""
    state = st.session_state
    _asked_by_link()
    if state.get(GETTING):
        _progress()
    elif state.get(WANTED):
        _offer(next(iter(state[WANTED])))
    if error := state.get(FAILED):
        failed(error)
        st.button(t("opening.close"), key="models_close", icon=":material/close:", on_click=_forget, args=(FAILED,))


def weights_note(missing: tuple[str, ...], left_over: tuple[str, ...]) -> None:
    """Name weights that were not among a model's files, and those of its layers that have no place in it."""
    for kind, names in (("missing", missing), ("left_over", left_over)):
        if names:
            more = t("opening.more", count=len(names) - 3) if len(names) > 3 else ""
            note(f"opening.{kind}", count=len(names), names=", ".join(names[:3]) + more)


def _asked_by_link() -> None:
    """Turn a link's model that is not here into an offer to get it; the layer and head it names wait with it."""
    name = link.said("model")
    if name in offered() or not name:
        if name in st.session_state.get(WANTED, {}):
            _forget(WANTED)
        return
    if not is_path(name) and not settings().fetches(name):
        link.forget("model")
        link.tell("opening.not_here", model=name[:40])
    elif ("/" in name and hub.plausible(name)) or name in listed() or name in OPTIONAL:
        rest = {key: value for key in OF_A_MODEL if (value := link.said(key))}
        st.session_state[WANTED] = {name: rest}
        link.forget("model", *OF_A_MODEL)
    elif is_path(name) or _leads_out(name):
        link.forget("model")
        link.tell("opening.path", model=name[:40])


def _leads_out(name: str) -> bool:
    try:
        source(name)
    except ModelError as error:
        return type(error).__name__ == "PathRefused"
    return False


def _offer(name: str) -> None:
    with st.container(border=True, key="gaze_wanted"):
        say("opening.away", model=name)
        if name in OPTIONAL:
            _optional(name)
        elif name in listed():
            _about(name, listed()[name])
        with st.container(horizontal=True):
            if name not in OPTIONAL:
                st.button(t("opening.get"), key="models_get_wanted", on_click=_get, args=(name,), type="primary")
            st.button(t("opening.no"), key="models_no", on_click=_forget, args=(WANTED,))


def _others(models: dict[str, str]) -> None:
    key = f"models_others_{st.session_state.setdefault(CLOSED, 0)}"
    place = st.popover(t("opening.others"), key=key, icon=":material/add:", on_change="rerun")
    if not place.open:
        return
    if settings().public:
        place.caption(t("opening.public"))
        return
    known = {name: one for name, one in listed().items() if settings().allows(name)}
    with place:
        say("opening.intro")
        name = st.selectbox(
            t("opening.choose"),
            list(known),
            index=None,
            key="models_name",
            format_func=lambda name: _label(name, models),
            placeholder=t("opening.placeholder"),
            accept_new_options=True,
            filter_mode="contains",
        )
        if name := (name or "").strip():
            _one(name, models)
        for optional in OPTIONAL:
            if not installed(optional) and settings().allows(optional):
                _optional(optional)
        note("opening.folder")


def _one(name: str, models: dict[str, str]) -> None:
    if name in models:
        st.button(t("opening.open"), key="models_open", on_click=_show, args=(name,), type="primary")
        return
    if is_path(name):
        st.error(t("opening.path", model=plain(name[:40])))
        return
    if not hub.plausible(name):
        st.error(t("opening.no_name", model=plain(shortened(name, 40))))
        return
    if not settings().fetches(name):
        st.error(t("opening.not_here", model=plain(shortened(name, 40))))
        return
    if name in listed():
        _about(name, listed()[name])
    st.button(t("opening.get"), key="models_get", on_click=_get, args=(name,), type="primary")


def _about(name: str, one: Listed) -> None:
    size = f"{one.megabytes:,} MB" if one.megabytes else t("opening.size_unknown")
    kind = t(f"opening.{one.kind.replace('-', '_')}")
    st.markdown(f"**{plain(one.title)}** · {plain(name)}  \n{kind} · {size} · {plain(one.licence)}")
    if one.pickle:
        note("opening.pickle")
    if one.gated:
        note("opening.gated")
    if one.needs:
        note("opening.needs", package=f"pip install {one.needs}")


def _optional(name: str) -> None:
    one = OPTIONAL[name]
    say("opening.optional", title=one.title, size=one.megabytes, licence=one.licence)
    st.code(command(name), language=None)
    st.caption(one.terms)


def _label(name: str, models: dict[str, str]) -> str:
    one = listed().get(name)
    if one is None:
        return name
    size = f"{one.megabytes:,} MB" if one.megabytes else ""
    kind = "here" if name in models else "pickle_only" if one.pickle else "with_terms" if one.gated else "away_yet"
    return " · ".join(part for part in (one.title, size, t(f"opening.{kind}")) if part)


@st.fragment(run_every=1.0)
def _progress() -> None:
    state = st.session_state
    name = state.get(GETTING)
    download = hub.under_way(name) if name else None
    if download is None or download.finished:
        state.pop(GETTING, None)
        if download and download.error:
            state[FAILED] = download.error
        elif download:
            state[NEXT] = {"model": name} | state.get(WANTED, {}).get(name, {})
            _forget(WANTED)
            st.toast(t("opening.arrived", model=plain(name)))
        st.rerun()
    download.wait(_who())
    done, total = download.done, download.total
    with st.container(border=True, key="gaze_getting"):
        said = {"model": plain(name), "done": f"{done / 1e6:,.0f}", "total": f"{total / 1e6:,.0f}"}
        st.progress(
            min(1.0, done / total) if total else 0.0, t("opening.getting" if total else "opening.asking", **said)
        )
        st.button(t("opening.stop"), key="models_stop", on_click=_stop, args=(name,))


def _get(name: str) -> None:
    hub.fetch(name, _who())
    _forget(FAILED)
    st.session_state[GETTING] = name
    _close()


def _stop(name: str) -> None:
    if download := hub.under_way(name):
        download.leave(_who())
    _forget(GETTING)


def _show(name: str) -> None:
    st.session_state[NEXT] = {"model": name}
    _close()


def _close() -> None:
    # The browser opens a popover again that was closed for it: another one, which begins closed, takes its place.
    st.session_state[CLOSED] = st.session_state.get(CLOSED, 0) + 1


def _forget(key: str) -> None:
    st.session_state.pop(key, None)


def _who() -> str:
    return st.session_state.setdefault(WHO, uuid.uuid4().hex)
