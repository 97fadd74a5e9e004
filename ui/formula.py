"""The formula that a head really uses, written out with its numbers; each term can be left out."""

import math
from typing import TYPE_CHECKING

import streamlit as st

from ui import link
from ui.compute import head_view
from ui.show import sharing
from ui.text import note, t

if TYPE_CHECKING:
    from attention_core.views import HeadView

CHANGEABLE = ("factor", "softcap", "bias", "causal", "window", "sink")


def formula_choice(model: str, text: str, layer: int, head: int) -> tuple[str, ...]:
    """Show the formula of a head (from 0), and ask which of its terms to leave out."""
    own = head_view(model, text, layer, head, "token", "shown")
    if own.only:  # weights only: its formula can't be seen
        return ()
    terms = dict(own.terms)
    offered = [name for name in CHANGEABLE if name in terms and not (name == "factor" and terms[name] == 1)]

    def parse(said: str) -> list[str]:
        names = said.split("-") if said else []
        if unknown := set(names) - set(CHANGEABLE):
            raise ValueError(f"no term {unknown}")
        return [name for name in offered if name in names]

    without = tuple(link.restore("without", [], parse))
    link.remind("without")
    label = t("formula.changed") if without else t("formula.title")
    with st.popover(label, icon=":material/function:"):
        st.latex(equation(own, without))
        if own.kind == "cross":
            note("inputs.formula_cross")
        for name, number in terms.items():
            if name not in without:
                note(f"formula.{_told(name, own)}", **_numbers(name, number, own))
        if shared := sharing(own):
            note(f"formula.group{'' if own.groups > 1 else '_all'}", **shared)
        if offered:
            name = lambda term: t(f"formula.name_{term}")  # noqa: E731
            st.pills(t("formula.without"), offered, key="without", selection_mode="multi", format_func=name)
    return without


def changed_line(without: tuple[str, ...]) -> None:
    """Say which terms are left out of what is shown, where there are any."""
    if without:
        note("formula.now", terms=named(without))


def named(without: tuple[str, ...]) -> str:
    """Return the names of some terms, one after the other."""
    return ", ".join(t(f"formula.name_{name}") for name in without)


def equation(own: "HeadView", without: tuple[str, ...] = ()) -> str:
    r"""Write a head's formula in TeX, without the terms that are left out.

    Example: ``\operatorname{softmax}_{j \le i}\!\left(\frac{q_i \cdot k_j}{\sqrt{64}}\right)``
    """
    terms = {name: number for name, number in own.terms if name not in without}
    score, factor = r"q_i \cdot k_j", terms.get("factor", 1.0)
    if (root := _root(factor)) is not None:
        score = rf"\frac{{{score}}}{{\sqrt{{{root}}}}}"
    elif factor != 1:
        score = rf"{factor:.4g}\; {score}"
    if (cap := terms.get("softcap")) is not None:
        score = rf"{cap:g} \tanh\!\left(\frac{{1}}{{{cap:g}}} {score}\right)"
    if "bias" in terms:
        score += r" + b_{ij}"
    which = []
    if "causal" in terms:
        which.append(r"j \le i")
    if (window := terms.get("window")) is not None:
        both = "causal" not in dict(own.terms)
        which.append(rf"|i - j| < {window:g}" if both else rf"j > i - {window:g}")
    elif "allowed" in terms and not which:
        which.append(r"\text{allowed}")
    keys = f"_{{{', '.join(which)}}}" if which else "_{j}"
    sink = rf",\; {terms['sink']:.3g}" if "sink" in terms else ""
    return rf"w_{{ij}} = \operatorname{{softmax}}{keys}\!\left({score}{sink}\right)"


def _root(factor: float) -> int | None:
    """Return n where the factor is 1/√n, n > 1 a whole number."""
    root = round(1 / factor**2) if factor > 0 else 0
    return root if 1 < root < 10**6 and math.isclose(factor, 1 / math.sqrt(root), rel_tol=1e-6) else None


def _told(name: str, own: "HeadView") -> str:
    if name == "window" and "causal" not in dict(own.terms):
        return "window_both"
    if name != "factor":
        return name
    usual = math.isclose(dict(own.terms)["factor"], 1 / math.sqrt(own.size), rel_tol=1e-6)
    way = own.source.way
    if way in ("size", "root") and usual:
        return "factor_usual" if way == "size" else "factor_root_usual"
    return f"factor_{'own' if way == 'size' else way}"


def _numbers(name: str, number: float, own: "HeadView") -> dict[str, object]:
    _, field, value = own.source
    usual = f"{1 / math.sqrt(own.size):.4g}"
    return {"number": f"{number:.4g}", "size": own.size, "usual": usual, "field": field, "value": f"{value:.4g}"}
