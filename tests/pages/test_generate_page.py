"""Generate, as a reader uses it: writing, stepping, settings, mask, cache, bad input, links, both languages."""

import json

import pytest

from attention_core import compute, generating
from attention_core.generating import MOST, Sampling
from attention_core.labs.kv_cache import NAMED, cache_bytes
from pages.test_pages import arrays, captions, link, payload, with_numbers
from trigger import fire
from ui.changes import generate as glue
from ui.text import FOLDER

PAGE = "pages/generate.py"
PROMPT = glue.PROMPT


def said(page):
    return " ".join(e.value for e in [*page.markdown, *page.caption]).replace("\\", "")


def text_of(page):
    shown = payload(page, "written")
    return shown["prompt"] + "".join(shown["new"])


def chosen(page):
    shown = payload(page, "next")
    return shown["labels"][shown["chosen"]]


@pytest.fixture
def write(open_page):
    """The page with the usual prompt, which another page's sentence would take the place of."""
    return lambda **query: open_page(PAGE, **{"lang": "en", "text": PROMPT} | query)


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_opens_with_paris(write, lang):
    page = write(lang=lang)
    assert not page.exception
    assert (text_of(page), chosen(page)) == (PROMPT, "·Paris")
    assert "0.773" in said(page)
    assert link(page)["model"] == "smollm2"
    heat = payload(page, "write-heat")
    assert (len(heat["queries"]), heat["pinned"]) == (5, 4)


def test_step_back_pick_and_start_over(write):
    page = write()
    for _ in range(3):
        page.button(key="write_step").click().run()
    assert payload(page, "written")["new"] == [" Paris", ".", "\n"]
    heat = payload(page, "write-heat")
    assert (heat["queries"][-1], heat["pinned"]) == ("↵", 7)
    assert not arrays(page, "write-heat")["allowed"][0, 1:].any()
    cells = payload(page, "cells")
    assert (len(cells["labels"]), cells["fresh"]) == (8, 1)
    assert "**8** with it, **26** without" in said(page)  # 5 + 6 + 7 + 8
    page.button(key="write_back").click().run()
    assert payload(page, "written")["new"] == [" Paris", "."]
    assert link(page)["steps"] == "2"
    page = fire(page, "written", "picked", 1)
    assert text_of(page) == f"{PROMPT} Paris"
    page.button(key="write_first").click().run()
    assert text_of(page) == PROMPT
    assert not page.exception


def test_play_writes_a_token_a_tick_until_it_is_paused_or_there(write):
    page = write(tokens="4")
    page.button(key="write_play").click().run()
    first = len(payload(page, "written")["new"])
    assert first == 1
    page.run()
    assert len(payload(page, "written")["new"]) == 2
    page.button(key="write_pause").click().run()
    assert link(page)["steps"] == "2"
    page.run()
    assert len(payload(page, "written")["new"]) == 2
    page.button(key="write_play").click().run()
    for _ in range(3):
        page.run()
    assert link(page)["steps"] == "4"
    assert page.button(key="write_play")
    assert not page.exception


def test_the_model_ends_its_text(write):
    page = write(steps="60")
    assert link(page)["steps"] == "29"
    assert "sign for the end" in said(page)
    page.button(key="write_step").click().run()
    assert link(page)["steps"] == "29"
    assert not page.exception


def test_a_seed_and_a_link_write_the_same_text_again(write, open_page):
    settings = {"how": "sample", "temperature": "1.3", "top_k": "40", "top_p": "0.9", "steps": "6"}
    texts = [text_of(write(seed=seed, **settings)) for seed in ("1", "2", "1")]
    assert texts[0] == texts[2] != texts[1]
    page = write(lang="ko", seed="2", layer="7", head="5", cheat="yes", kv_preset="llama2_70b", **settings)
    again = open_page(PAGE, **link(page))
    assert link(again) == link(page)
    assert text_of(again) == text_of(page) == texts[1]
    assert arrays(again, "write-heat")["weights"].tolist() == arrays(page, "write-heat")["weights"].tolist()
    assert {"temperature": "1.3", "top_k": "40", "top_p": "0.9", "seed": "2", "steps": "6"}.items() <= link(
        page
    ).items()


def test_chances_are_drawn_beside_probabilities(write):
    page = write(how="sample", temperature="2.0", top_k="3")
    shown = payload(page, "next")
    assert shown["sampled"]
    assert sum(shown["chances"]) == pytest.approx(1)
    assert [c > 0 for c in shown["chances"]] == [True] * 3 + [False] * 7
    assert "left to draw from: 3" in said(page)


def test_temperature_zero_and_a_billion(write):
    cold = write(how="sample", temperature="0", seed="9", steps="3")
    assert not cold.exception
    assert text_of(cold) == text_of(write(steps="3"))
    assert "At temperature 0 nothing is left to chance" in said(cold)
    hot = write(how="sample", temperature="1000000000")
    assert not hot.exception
    assert "49,152" in said(hot)
    assert "scores hardly matter" in said(hot)
    assert "scores hardly matter" not in said(write(how="sample", temperature="1.5"))


def test_two_thousand_tokens(write, monkeypatch):
    monkeypatch.setattr(glue, "MOST", 3)
    page = write(steps="2000", tokens="2000")
    assert not page.exception
    assert link(page)["steps"] == "3"
    assert page.number_input(key="tokens").value == 2000  # what was typed stays
    assert said(page).count("2,000 new tokens were asked for") == 2


BAD = {"steps": "-1", "tokens": "0", "kv_preset": "gpt9", "kv_heads": "0", "groups": "2", "cheat": "**b**"}
BAD_DRAWS = {"temperature": "nan", "top_k": "-3", "top_p": "1.5", "seed": "0"}


@pytest.mark.parametrize("bad", [BAD | {"how": "beam"}, BAD_DRAWS, {"temperature": "-1", "steps": "x"}], ids=str)
def test_what_does_not_exist_gets_the_default(write, bad):
    page = write(**{"how": "sample"} | bad)
    assert not page.exception
    usual = {"steps": "0", "tokens": "30", "kv_preset": "own", "kv_heads": "9", "groups": "3", "cheat": "no"}
    usual |= {"how": "greedy", "temperature": "1.0", "top_k": "0", "top_p": "1.0", "seed": "1"}
    assert {key: link(page)[key] for key in bad} == {key: usual[key] for key in bad}
    assert said(page).count("does not exist") == len(bad)


def test_a_model_that_only_reads(write):
    page = write(model="minilm")
    assert not page.exception
    assert "MiniLM-L6 reads and does not write" in said(page)
    assert link(page)["model"] == "smollm2"
    assert chosen(page) == "·Paris"


def test_another_prompt_begins_anew(write):
    page = write(steps="2")
    page.text_input(key="text").set_value("Once upon a").run()
    assert link(page)["steps"] == "0"
    assert text_of(page) == "Once upon a"
    page.text_input(key="text").set_value("  ").run()
    assert "nothing to read" in captions(page)
    assert text_of(page) == "Once upon a"
    assert not page.exception


@pytest.mark.parametrize("text", ["</script><b>$x$</b>", "나는 케이크를", "💩 👨‍👩‍👧", "cake"])
def test_odd_prompts(write, text):
    page = write(text=text, steps="2", cheat="yes")
    assert not page.exception
    assert payload(page, "written")["prompt"] == text
    assert len(payload(page, "written")["new"]) == 2


def test_a_head_that_is_picked_is_watched(write):
    page = write(steps="1")
    before = arrays(page, "write-heat")["weights"]
    page = fire(page, "heads", "picked", 6)
    assert link(page)["head"] == "7"
    assert (arrays(page, "write-heat")["weights"] != before).any()
    page.slider(key="layer").set_value(3).run()
    assert not page.exception
    assert "layer 3, head 7" in said(page)


def test_the_mask_off_fills_the_future_and_the_numbers_decide_what_is_said(write):
    page = write(cheat="yes")
    opened = arrays(page, "heat-write-open")
    assert opened["allowed"].all()
    assert (opened["weights"][0, 1:] > 0).any()
    assert "**0.36** on average" in said(page) and "**0.04**" in said(page)
    assert "never learned with its masks off" in said(page)
    page = write(cheat="yes", steps="10")
    assert "**0.43** on average" in said(page) and "**0.63**" in said(page)
    assert "reads the answer off" in said(page)


def test_both_ways_are_run_and_compared(write):
    page = write(race="yes")
    assert not page.exception
    assert len(page.metric) == 2
    assert "for 24 tokens with the cache, for 290 without" in said(page)


def test_sizes(write):
    page = write(kv_preset="llama2_70b")
    assert "1,342,177,280 bytes = 1.25 GiB" in said(page)
    assert [part["groups"] for part in payload(page, "sharing")["parts"]] == [64, 8, 1]
    assert [part["size"] for part in payload(page, "sharing")["parts"]] == ["10.00 GiB", "1.25 GiB", "160 MiB"]
    page.select_slider(key="kv_groups").set_value(64).run()
    assert "10,737,418,240" in said(page)
    page.segmented_control(key="kv_preset").set_value("gpt2").run()
    expected = cache_bytes(NAMED["gpt2"].shape, 1024, 4)
    assert f"{expected:,} bytes" in said(page)
    page.select_slider(key="kv_heads").set_value(1).run()
    assert link(page)["kv_groups"] == "1"
    assert not page.exception


def test_what_the_cache_really_holds_is_what_the_page_says(write):
    compute.run(generating._writings.clear)
    page = write(text="The capital of Spain is", steps="2")
    shape, number = NAMED["smollm2"].shape, 4
    assert f"keys and values in it take {cache_bytes(shape, 7, number):,} bytes" in said(page)
    assert f"**{cache_bytes(shape, 7, number):,} bytes**" in said(page)


def test_fewer_key_value_heads(write):
    page = write(groups="1")
    assert not page.exception
    assert "**33.7** to **17,99" in said(page)
    assert (arrays(page, "heat-pooled-False")["weights"] != arrays(page, "heat-pooled-True")["weights"]).any()


def test_numbers_and_files(write):
    page = with_numbers(write(steps="2"), "generate")
    steps, following, row = (table.value for table in page.dataframe)
    assert list(steps.iloc[:, 0]) == ["1 · ·Paris", "2 · .", "3 · ↵"]
    assert len(following) == 10
    assert row.iloc[:, 1].sum() == pytest.approx(1)
    page.session_state["take_away"] = True
    page.run()
    assert not page.exception
    assert "capture" in page.code[0].value


def test_two_people_write_at_once(write):
    mine, theirs = write(steps="1"), write(text="Once upon a time", steps="1")
    for _ in range(2):
        mine.button(key="write_step").click().run()
        theirs.button(key="write_step").click().run()
    assert text_of(mine) == f"{PROMPT} Paris.\n"
    assert text_of(theirs).startswith("Once upon a time,")
    assert len(payload(theirs, "written")["new"]) == 3


def test_page_and_core_agree():
    assert glue.MOST == MOST
    assert glue.Asked("m", "t", *Sampling())[2:] == tuple(Sampling())


def test_numbers_in_try_this_are_tested_ones():
    for lang in ("en", "ko"):  # tests/core/test_generating.py and test_kv_cache.py check each with the core
        text = (FOLDER / lang / "generate.toml").read_text(encoding="utf-8")
        for number in ("0.773", "0.36", "0.04", "0.43", "0.63", "290", "24", "1.25 GiB", "160 MiB", "33.7", "18,000"):
            assert number in text, (lang, number)


@pytest.fixture
def own_models(tmp_path, monkeypatch, models):
    """A folder of models that write: one with weights only, and one with a short context."""
    import transformers

    sizes = {"vocab_size": 49152, "hidden_size": 24}
    bloom = transformers.BloomForCausalLM(transformers.BloomConfig(**sizes, n_layer=2, n_head=2))
    inner = {"intermediate_size": 41, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 1}
    config = transformers.LlamaConfig(**sizes, **inner, max_position_embeddings=7, eos_token_id=None)
    for name, module in {"own-bloom": bloom, "own-short": transformers.LlamaForCausalLM(config)}.items():
        module.save_pretrained(tmp_path / name)
        models["smollm2"].tokenizer.save_pretrained(tmp_path / name)
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))


def test_a_model_that_hands_out_weights_only_writes_too(write, own_models):
    page = write(model="own-bloom", steps="2", cheat="yes", race="yes", groups="1")
    assert not page.exception
    assert not page.error
    assert len(payload(page, "write-heat")["queries"]) == 7
    assert "no causal mask of its own" in said(page)
    assert "can't be averaged" in said(page)


def test_a_context_that_is_full(write, own_models):
    page = write(model="own-short", steps="9", cheat="yes", race="yes")
    assert not page.exception
    assert link(page)["steps"] == "2"
    assert "it takes 7 tokens" in said(page)
    assert "share one key-value head already" in said(page)
    assert "3 of 3" in said(page)  # what reads 7 tokens at most writes after 5, 6 and 7


def test_this_one_here_is_the_model_that_writes(write, own_models):
    page = write()
    assert link(page)["kv_layers"] == "30"
    page.segmented_control(key="model").set_value("own-short").run()
    assert not page.exception
    told = link(page)
    assert [told[f"kv_{name}"] for name in ("layers", "heads", "groups", "size")] == ["2", "6", "1", "4"]
    page.select_slider(key="kv_tokens").set_value(2048).run()
    assert "Changed here" in said(page)


def test_whoever_comes_back_finds_the_writing_paused(write):
    page = write()
    page.button(key="write_play").click().run()
    page.switch_page("pages/what_if.py").run()
    page.switch_page(PAGE).run()
    assert not page.exception
    assert page.button(key="write_play")
    assert not page.session_state[glue.PLAYING]


def test_two_stacks_and_pictures_are_told_apart(write, own_models, tmp_path):
    for name, config, word in (
        ("own-t5", {"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, "two stacks"),
        ("own-bert", {"architectures": ["BertModel"], "model_type": "bert"}, "reads and does not write"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        (tmp_path / name / "model.safetensors").write_bytes(b"")
        page = write(model=name)
        assert not page.exception
        assert word in said(page), name
        assert link(page)["model"] == "smollm2"


def test_a_conclusion_follows_its_numbers(write, monkeypatch):
    from attention_core.generating import Cheat

    sides = {"better": ((0.1, 0.2, 0.3), (0.4, 0.5, 0.1)), "worse": ((0.4, 0.5, 0.1), (0.1, 0.2, 0.3))}
    sides["mixed"] = (0.1, 0.2, 0.9), (0.2, 0.3, 0.1)  # higher in most places, lower on average
    words = {"better": "That is cheating", "worse": "more sight confuses it", "mixed": "helps in some places"}
    for kind, (masked, unmasked) in sides.items():
        monkeypatch.setattr(glue, "_cheat", lambda *_, m=masked, u=unmasked: Cheat(("a", "b", "c", "d"), m, u))
        page = write(cheat="yes")
        assert [word in said(page) for word in words.values()] == [kind == name for name in words]


def test_a_model_that_can_not_be_opened_leaves_the_one_before(write, own_models, tmp_path):
    (tmp_path / "own-short").rename(tmp_path / "own-mute")
    (tmp_path / "own-mute" / "tokenizer.json").unlink()
    page = write(model="own-mute", steps="2")
    assert not page.exception
    assert "mute has no tokeniser" in page.error[0].value
    assert link(page)["model"] == "smollm2"
    assert len(payload(page, "write-heat")["queries"]) == 7


def test_a_prompt_of_ten_thousand_words(write):
    text = "the cake was good " * 2500
    page = write(text=text)
    assert not page.exception
    assert "512 fit here" in page.warning[0].value
    assert len(payload(page, "write-heat")["queries"]) == 512
