"""The page "All heads", as a reader drives it."""

import zlib

import numpy as np
import pytest

from attention_core import capture
from attention_core.statistics import ROLES, SHARES, STATISTICS, repeat, survey
from attention_core.views import thumbnails
from pages.test_pages import arrays, captions, link, own_models, payload, view, with_numbers  # noqa: F401 - a fixture
from trigger import fire
from ui.controls import EXAMPLE

PAGE = "pages/all_heads.py"


def pictures(page):
    shape = payload(page, "wall-pictures")["shape"]
    return np.frombuffer(zlib.decompress(arrays(page, "wall-pictures")["deflated"].tobytes()), np.uint8).reshape(shape)


def sent(page, key):
    return len(next(e for e in page.get("bidi_component") if e.key == key).proto.bytes)


def said(page):
    return " ".join(m.value for m in [*page.markdown, *page.caption]).replace("\\", "")


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_opens_with_every_head(open_page, models, lang):
    page = open_page(PAGE, lang=lang)
    assert not page.exception
    wall, seen = payload(page, "wall"), capture(models["minilm"], EXAMPLE)
    assert (wall["shape"], wall["shown"], wall["flow"]) == ([6, 12], list(range(72)), False)
    assert wall["chosen"] == [5, 11]
    assert pictures(page).shape == (6, 12, 10, 10)
    assert np.abs(pictures(page)[3].astype(int) - thumbnails(seen, 3)).max() <= 1
    expected, found = survey(seen, repeat(models["minilm"])), arrays(page, "wall-pictures")
    np.testing.assert_allclose(found["values"], expected.values, atol=1e-5)
    assert (found["roles"] == expected.roles).all()
    assert sum(wall["counts"]) == 72
    for name in STATISTICS:  # each is defined on the page
        assert wall["statistics"][STATISTICS.index(name)] in said(page)
    assert "50%" in said(page)
    assert "90%" in said(page)


def test_a_head_that_is_picked_opens_large(open_page, models):
    page = open_page(PAGE, lang="en")
    before = arrays(page, view_key(page, "heat"))["weights"]
    page = fire(page, "wall", "picked", [0, 2])
    assert not page.exception
    assert (link(page)["layer"], link(page)["head"]) == ("1", "3")
    assert payload(page, "wall")["chosen"] == [0, 2]
    shown = arrays(page, view_key(page, "heat"))["weights"]
    np.testing.assert_allclose(shown, capture(models["minilm"], EXAMPLE).weights(0, 2), atol=1e-6)
    assert np.abs(shown - before).max() > 0.1
    assert "Layer 1, head 3" in said(page)
    share = survey(capture(models["minilm"], EXAMPLE)).values[STATISTICS.index("previous"), 0, 2]
    assert f"Role: **previous token**. It gets {share:.2f} of the weight; equal weights would give it 0.10" in said(
        page
    )


def view_key(page, kind):
    return next(e.key for e in page.get("bidi_component") if e.key.startswith(kind))


def test_order_by_any_statistic(open_page):
    page = open_page(PAGE, lang="en")
    for name in STATISTICS:
        page.pills(key="wall_order").set_value(name).run()
        assert not page.exception
        assert link(page)["wall_order"] == name
        wall, values = payload(page, "wall"), arrays(page, "wall-pictures")["values"][STATISTICS.index(name)].ravel()
        assert sorted(wall["shown"]) == list(range(72))
        if name == "punctuation":  # there is none in the sentence
            assert not wall["flow"]
            assert "No head has a number" in captions(page)
        else:
            assert wall["flow"]
            assert (np.diff(values[wall["shown"]]) <= 0).all()


def test_filters(open_page):
    page = open_page(PAGE, lang="en")
    page.slider(key="wall_layers").set_value((2, 3)).run()
    assert payload(page, "wall")["shown"] == list(range(12, 36))
    assert link(page)["wall_layers"] == "2-3"
    page.pills(key="wall_roles").set_value(["first", "next"]).run()
    assert not page.exception
    wall, roles = payload(page, "wall"), arrays(page, "wall-pictures")["roles"].ravel()
    assert {ROLES[roles[i]] for i in wall["shown"]} == {"first", "next"}
    assert all(12 <= i < 36 for i in wall["shown"])
    page.slider(key="wall_layers").set_value((1, 1)).run()
    assert payload(page, "wall")["shown"] == []
    assert "No head has these roles" in captions(page)
    assert payload(page, "wall")["colours"][ROLES.index("first")] == "#e69f00"
    page.segmented_control(key="wall_colour").set_value("plain").run()
    assert payload(page, "wall")["colours"] is None


def test_choices_send_the_pictures_only_once(open_page):
    page = open_page(PAGE, lang="en")
    before = next(e for e in page.get("bidi_component") if e.key == "wall-pictures").proto.bytes
    page.pills(key="wall_order").set_value("entropy").run()
    page = fire(page, "wall", "picked", [3, 3])
    page.segmented_control(key="lang").set_value("ko").run()
    assert next(e for e in page.get("bidi_component") if e.key == "wall-pictures").proto.bytes == before
    assert sent(page, "wall") < 5000


def test_a_link_comes_back_identical(open_page):
    wanted = {
        "lang": "ko",
        "text": "나는 은행에서 돈을 찾았다. </script><b>x</b>",
        "model": "minilm",
        "layer": "2",
        "head": "5",
        "wall_order": "entropy",
        "wall_layers": "2-5",
        "wall_roles": "first-mixed",
        "wall_colour": "plain",
        "one_map": "yes",
        "way": "rollout",
        "first": "log",
        "present": "no",
    }
    page = open_page(PAGE, **wanted)
    assert not page.exception
    assert link(page) == wanted
    assert payload(page, "wall")["chosen"] == [1, 4]


@pytest.mark.parametrize(
    "bad",
    [
        {"wall_order": "beauty"},
        {"wall_layers": "9-2"},
        {"wall_layers": "1-99"},
        {"wall_layers": "x"},
        {"wall_roles": "first-nobody"},
        {"wall_colour": "**b**"},
        {"layer": "0"},
    ],
    ids=str,
)
def test_what_does_not_exist_gets_the_default_and_a_note(open_page, bad):
    page = open_page(PAGE, lang="en", **bad)
    assert not page.exception
    assert payload(page, "wall")["shown"] == list(range(72))
    assert "does not exist" in captions(page)


def test_another_model_forgets_the_layers_and_keeps_the_order(open_page):
    page = open_page(PAGE, lang="en", wall_layers="1-3", wall_order="first")
    page.segmented_control(key="model").set_value("smollm2").run()
    assert not page.exception
    wall = payload(page, "wall")
    assert (wall["shape"], len(wall["shown"]), wall["chosen"]) == ([30, 9], 270, [25, 2])
    assert link(page)["wall_layers"] == "1-30"
    assert link(page)["wall_order"] == "first"
    page.pills(key="wall_order").set_value("next").run()  # a model that only looks back has none
    assert not payload(page, "wall")["flow"]
    assert "No head has a number" in captions(page)
    page.pills(key="wall_roles").set_value(["induction"]).run()
    best = payload(page, "wall")["shown"][0]
    page = fire(page, "wall", "picked", [best // 9, best % 9])
    assert "On random tokens that come twice" in said(page)


def test_one_token(open_page):
    page = open_page(PAGE, lang="en", model="smollm2", text="it")
    assert not page.exception
    assert pictures(page).shape == (30, 9, 1, 1)
    counts = dict(zip(ROLES, payload(page, "wall")["counts"], strict=True))
    assert {role for role, count in counts.items() if count} == {"induction", "duplicate", "mixed"}
    page.pills(key="wall_order").set_value("previous").run()
    assert "No head has a number" in captions(page)


def test_longer_than_the_model_takes(open_page):
    page = open_page(PAGE, lang="en", text="the cake was good, " * 300)
    assert not page.exception
    assert "512 fit here" in page.warning[0].value
    assert pictures(page).shape[:2] == (6, 12)
    assert max(pictures(page).shape[2:]) <= 64
    assert sent(page, "wall-pictures") < 200_000


def test_blank_text_keeps_the_last_wall(open_page):
    page = open_page(PAGE, lang="en", text="hello world")
    before = payload(page, "wall")["wall"]
    page.text_input(key="text").set_value("  ").run()
    assert not page.exception
    assert payload(page, "wall")["wall"] == before


def test_six_hundred_heads(open_page, own_models, tmp_path):  # noqa: F811
    from transformers import AutoTokenizer, BertConfig, BertModel

    from attention_core.models.embedded import published_file

    config = BertConfig(hidden_size=50, num_hidden_layers=24, num_attention_heads=25, intermediate_size=31)
    BertModel(config).save_pretrained(tmp_path / "many")
    AutoTokenizer.from_pretrained(published_file("minilm").parent).save_pretrained(tmp_path / "many")
    page = open_page(PAGE, lang="en", model="many", wall_order="entropy")
    assert not page.exception
    assert len(payload(page, "wall")["shown"]) == 600
    assert pictures(page).shape == (24, 25, 10, 10)
    assert {ROLES[n] for n in arrays(page, "wall-pictures")["roles"].ravel()} <= {"broad", "mixed"}


def test_a_model_that_can_not_be_seen_says_why(open_page, own_models):  # noqa: F811
    page = open_page(PAGE, lang="en", model="tiny-fnet")
    assert not page.exception
    assert "can't be seen" in page.error[0].value


def test_a_model_that_shows_weights_only_has_a_wall(open_page, own_models):  # noqa: F811
    page = open_page(PAGE, lang="en", model="weights-bloom", one_map="yes", way="rollout")
    assert not page.exception
    assert len(payload(page, "wall")["shown"]) == 4


def test_the_numbers_of_every_head(open_page):
    page = with_numbers(open_page(PAGE, lang="en"), "gaze-all-heads")
    assert not page.exception
    table = page.dataframe[0].value
    assert table.shape == (72, 1 + len(STATISTICS) + 1)
    assert table.iloc[2, 0] == "Layer 1, head 3 · previous token"
    found = arrays(page, "wall-pictures")["values"]
    np.testing.assert_allclose(
        table.iloc[:, 1 : 1 + len(STATISTICS)].to_numpy(float).T, found.reshape(len(STATISTICS), -1), atol=1e-6
    )


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_mixed_head_names_the_largest_share_and_the_token_that_gets_most(open_page, models, lang):
    page = open_page(PAGE, lang=lang)  # opens on a head that looks at "cake", which is no role
    seen = capture(models["minilm"], EXAMPLE)
    found = survey(seen, repeat(models["minilm"])).values[[STATISTICS.index(name) for name in SHARES], 5, 11]
    named = {"en": "for “first token”", "ko": "“첫 토큰”의"}[lang]
    assert SHARES[int(np.nanargmax(found))] == "first"
    assert named in said(page) and f"{np.nanmax(found):.2f}" in said(page)
    assert ("at least 50% of the weight would be needed" if lang == "en" else "가중치의 50% 이상이어야") in said(page)
    assert "cake" in said(page) and f"{seen.weights(5, 11).mean(dim=0).max():.2f}" in said(page)


def test_a_share_of_all_that_is_no_more_than_equal_weights_says_so(open_page):
    page = open_page(PAGE, lang="en", model="smollm2", text="it", layer="1", head="1")
    roles = arrays(page, "wall-pictures")["roles"]
    layer, head = np.argwhere(roles == ROLES.index("mixed"))[0]
    page = open_page(PAGE, lang="en", model="smollm2", text="it", layer=str(layer + 1), head=str(head + 1))
    assert "is 1.00, for “same token”" in said(page)
    assert "less than 2 times the 1.00 that equal weights would give it" in said(page)
    assert "would be needed" not in said(page)
    assert "It looks mostly" not in said(page)  # there is only one


def test_a_role_s_own_token_is_not_said_twice(open_page):
    page = open_page(PAGE, lang="en", model="smollm2")
    roles, values = arrays(page, "wall-pictures")["roles"], arrays(page, "wall-pictures")["values"]
    at = np.where(roles == ROLES.index("first"), values[STATISTICS.index("first")], 0)
    layer, head = np.unravel_index(at.argmax(), at.shape)
    page = open_page(PAGE, lang="en", model="smollm2", layer=str(layer + 1), head=str(head + 1))
    assert "Role: **first token**" in said(page)
    assert "It looks mostly" not in said(page)


def test_equal_weights_in_a_long_text_are_not_zero(open_page):
    page = open_page(PAGE, lang="en", text="the cake was good, " * 60)
    layer, head = np.argwhere(arrays(page, "wall-pictures")["roles"] == ROLES.index("previous"))[0]
    page = open_page(PAGE, lang="en", text="the cake was good, " * 60, layer=str(layer + 1), head=str(head + 1))
    assert "equal weights would give it 0.0033" in said(page)


@pytest.mark.parametrize(("lang", "name"), [("en", "Order: by layer"), ("ko", "순서: 층별")])
def test_the_button_says_the_order_that_there_is(open_page, lang, name):
    page = open_page(PAGE, lang=lang, wall_order="punctuation")  # there is none in the sentence
    assert name in [block.proto.popover.label for block in blocks(page)]
    page = open_page(PAGE, lang=lang, wall_order="entropy")
    assert name not in [block.proto.popover.label for block in blocks(page)]


def blocks(page):
    waiting, found = [page.main], []
    while waiting:
        block = waiting.pop()
        found += [block] if getattr(block, "proto", None) is not None and hasattr(block.proto, "popover") else []
        waiting += list(getattr(block, "children", {}).values())
    return found


def test_the_picture_of_the_wall_is_named(open_page):
    page = open_page(PAGE, lang="en", text="the cake was good " * 20)
    heading = payload(page, "wall")["heading"]
    assert heading.startswith("all-MiniLM-L6-v2 · the cake was") or " · the cake was" in heading
    assert heading.endswith("…") and len(heading) < 90
