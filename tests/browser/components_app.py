"""All four components with made-up data, for the browser test; sizes and cases come from the address."""

import sys
from pathlib import Path

import numpy as np
import streamlit as st

sys.path.insert(0, str(Path(__file__).parents[2]))
from ui.components import head_strip, heatmap, row_in_full, token_links

SENTENCE = ["[CLS]", "I", "ate", "the", "cake", "and", "it", "was", "delicious", "[SEP]"]
ODD = [
    "[CLS]",
    "</script><b>x</b>",
    "مرحبا",
    "👩🏽‍🚀",
    "é́́",
    "$x$",
    "**b**",
    "안녕하세요",
    "antidisestablishmentarianism",
    "\ud800",
]
COLOURS = ["#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"]

st.set_page_config("components", layout="wide")
asked = st.query_params
n = 3 if st.session_state.get("short") else int(asked.get("n", 10))
n_heads = int(asked.get("heads", 1))
show, causal, seed = asked.get("show", "weights"), asked.get("causal") == "1", int(asked.get("seed", 0))
pinned = int(asked["query"]) if asked.get("query", "").isdigit() else None


def made_up(head: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores that look like a head's.

    Returns:
        raw scores, whether allowed, and weights, each (n, n); query 7 looks at nothing but key 4.
    """
    rng = np.random.default_rng(seed * 100 + head)
    near = -np.abs(np.subtract.outer(np.arange(n), np.arange(n) + head * 2 - 1)) * 1.5
    raw = rng.normal(0, 9, (n, n)) + near
    if n == len(SENTENCE):
        raw[6, 4] = 24.0
        raw[7, :], raw[7, 4] = -60.0, 60.0
    allowed = np.tril(np.ones((n, n), bool)) if causal else np.ones((n, n), bool)
    scaled = np.where(allowed, raw / np.sqrt(32), -np.inf)
    weights = np.exp(scaled - scaled.max(1, keepdims=True))
    return raw.astype("f4"), allowed, (weights / weights.sum(1, keepdims=True)).astype("f4")


words = ODD if asked.get("odd") else SENTENCE
tokens = [words[i % len(words)] for i in range(n)]
special = [token.startswith("[") for token in tokens]
raw, allowed, weights = made_up(0)
scores = raw if show == "raw" else raw * np.float32(1 / np.sqrt(32)) if show == "scaled" else weights
lo, hi = (0.0, 1.0) if show == "weights" else (float(scores.min()), float(scores.max()))
common = {"view": "v", "param": "query", "pinned": pinned, "queries": tokens, "keys": tokens}
factor = {"factor": float(1 / np.sqrt(32)), "factor_text": "1/√32 = 0.177"}

late = asked.get("late") if not st.session_state.get("again") else None  # what comes in the second run only
lent = bool(asked.get("late"))
steps = {"steps": np.stack([raw * 0.177 - 1])} if asked.get("extra") else {}

if asked.get("only") in (None, "strip"):
    picked = head_strip(
        {
            "chosen": st.session_state.get("head", 0),
            "names": [f"head {i + 1}" for i in range(12)],
            "words": {"alt": "heads"},
        },
        {"tiles": np.stack([(made_up(i)[2] * 255).astype("u1")[:64, :64] for i in range(12)])},
        key="strip",
        on_pick=lambda: st.session_state.update(head=st.session_state.strip.picked),
    ).picked
    st.html(f'<p id="picked">picked {picked}</p>')

left, right = st.columns(2) if asked.get("columns") else (st.container(), st.container())
with left:
    if asked.get("only") in (None, "links"):
        parts = [(h, made_up(h)[2], np.argwhere(made_up(h)[2] >= 0.01)) for h in range(n_heads)]
        arrays = {
            "query": np.concatenate([at[:, 0] for _, _, at in parts]),
            "key": np.concatenate([at[:, 1] for _, _, at in parts]),
            "weight": np.concatenate([w[at[:, 0], at[:, 1]] for _, w, at in parts]),
            "head": np.concatenate([np.full(len(at), h) for h, _, at in parts]),
        }
        if asked.get("none"):
            arrays = {name: a[:0] for name, a in arrays.items()}
        token_links(
            {
                **common,
                "muted_queries": special,
                "muted_keys": special,
                "titles": None,
                "least": 0.01,
                "heads": [
                    {"name": f"layer 6 · head {h + 1}", "colour": COLOURS[h] if n_heads > 1 else None}
                    for h in range(n_heads)
                ],
                "words": {
                    "queries": "query: looks",
                    "keys": "key: is looked at",
                    "none": "no weight of 0.01 or more",
                    "alt": "who looks at whom",
                },
            },
            arrays,
            key="links",
        )
with right:
    if asked.get("only") in (None, "map") and late != "map":
        heatmap(
            {
                "lends": "numbers",
                **common,
                **factor,
                "show": show,
                "lo": lo,
                "hi": hi,
                "words": {
                    "query": "query",
                    "key": "key",
                    "raw": "raw score",
                    "factor": "factor",
                    "scaled": "scaled score",
                    "final": "score into softmax",
                    "weights": "weight",
                    "not_allowed": "may not look there",
                    "alt": "heat map",
                },
            },
            {"weights": weights, "raw": raw, "allowed": allowed, **steps},
            key="map",
        )
if asked.get("only") in (None, "row") and late != "row":
    extra = {}
    if asked.get("extra"):
        extra = {"hidden": np.full(n, 0.25, "f4"), "sink": np.full(n, 0.125, "f4")}
    shares = weights * (0.625 if extra else 1)
    row_in_full(
        {
            **common,
            **factor,
            "default": min(6, n - 1),
            "borrows": "numbers" if lent else None,
            "steps": ["+ position bias"] if extra else [],
            "words": {
                "title": "“{query}”, in full",
                "pick": "Click a word to keep its row.",
                "key": "key",
                "raw": "raw score",
                "factor": "factor",
                "scaled": "scaled score",
                "weights": "weight",
                "sum": "sum",
                "hidden": "on hidden tokens",
                "sink": "sink",
                "more": "Scroll for all keys.",
                "alt": "one row in full",
                "not_allowed": "may not look there",
                "softmax": "softmax",
            },
        },
        ({} if lent else {"weights": shares, "raw": raw, "allowed": allowed, **steps, **extra})
        | {"total": shares.sum(axis=1)},
        key="row",
    )
st.button("shorter", on_click=lambda: st.session_state.update(short=True))
st.button("run again", on_click=lambda: st.session_state.update(again=st.session_state.get("again", 0) + 1))
st.html(f'<p id="done" data-n="{n}">runs again {st.session_state.get("again", 0)}</p>')
