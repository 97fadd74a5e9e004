"""The video search: the vectors, the attention, the Korean dictionary, the rates, and every claim of its page."""

import math
import re
import tomllib
import unicodedata
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize, scaled_dot_product_attention

from attention_core import compute
from attention_core.labs import video_search
from attention_core.labs.video_search import attend, catalogue, embed, key_of, opacities, queries, understand

TEXTS = Path(__file__).parents[2] / "assets" / "text"


def search(query, tags=5, temperature=0.05, hard=False):
    return compute.run(video_search.search, query, tags, temperature, hard)


def ranked(found):
    return [catalogue()[n] for n in np.argsort(-found.weights, kind="stable")]


def genres(query, first, **choice):
    return [film.genre for film in ranked(search(query, **choice))[:first]]


def page(lang):
    return tomllib.loads((TEXTS / lang / "video_search.toml").read_text("utf-8"))["video_search"]


def tried(lang, number):
    """The query that a "try this" prompt puts in quotes."""
    return re.search("“(.+?)”", page(lang)[f"try_{number}"])[1]


# vectors


def test_a_vector_is_the_mean_over_real_tokens_of_length_one(models):
    model = models["minilm"]
    texts = ["find me an SF film", "love", "a very long query about whales, bread and the deep sea"]
    together = embed(model, texts)
    for text, vector in zip(texts, together, strict=True):
        alone = model.tokenizer(text, return_tensors="pt")  # no padding, so every token is real
        with torch.inference_mode():
            mean = model.module(**alone).last_hidden_state[0].mean(dim=0)
        torch.testing.assert_close(vector, normalize(mean, dim=0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(together.norm(dim=-1), torch.ones(3))


def test_vectors_of_like_meaning_are_close(models):
    car, automobile, banana = embed(models["minilm"], ["a car", "an automobile", "a banana"])
    assert car @ automobile > 0.8
    assert car @ banana < 0.5


def test_a_key_is_the_mean_direction_of_its_tags():
    torch.testing.assert_close(key_of(torch.tensor([[1.0, 0, 0], [0, 1, 0]])), torch.tensor([0.5, 0.5, 0]) * 2**0.5)
    tag = normalize(torch.randn(1, 7), dim=-1)
    torch.testing.assert_close(key_of(tag), tag[0])
    torch.testing.assert_close(key_of(tag.expand(5, 7)), tag[0])


# attention


def test_soft_search_is_attention():
    query, keys, values = torch.randn(7), torch.randn(11, 7), torch.randn(11, 3)
    trace, weights, context = attend(query, keys, values, 0.4)
    expected = scaled_dot_product_attention(query[None], keys, values, scale=1 / 0.4)[0]
    torch.testing.assert_close(context, expected)
    torch.testing.assert_close(weights @ values, context)
    torch.testing.assert_close(trace.scaled[0, 0], keys @ query / 0.4)
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0))


def test_soft_search_by_hand():
    keys = torch.tensor([[1.0, 0], [0, 1]])
    _, weights, context = attend(torch.tensor([math.log(3), 0.0]), keys, torch.tensor([[8.0], [0.0]]), 1.0)
    torch.testing.assert_close(weights, torch.tensor([0.75, 0.25]))
    torch.testing.assert_close(context, torch.tensor([6.0]))


def test_hard_search_is_one_winner_and_the_limit_of_soft_search():
    query, keys, values = torch.randn(7), torch.randn(11, 7), torch.randn(11, 3)
    trace, hard, context = attend(query, keys, values, 0.4, hard=True)
    best = int((keys @ query).argmax())
    assert hard.tolist() == [float(n == best) for n in range(11)]
    torch.testing.assert_close(context, values[best])
    assert 0 < trace.weights[0, 0, best] < 1, "the soft weights stay to be seen"
    torch.testing.assert_close(attend(query, keys, values, 1e-4)[1], hard)


def test_equal_films_get_equal_weights_and_hard_search_takes_the_first():
    keys = torch.ones(5, 3)
    torch.testing.assert_close(attend(torch.ones(3), keys, keys, 0.1)[1], torch.full((5,), 0.2))
    assert attend(torch.ones(3), keys, keys, 0.1, hard=True)[1].tolist() == [1, 0, 0, 0, 0]


def painted(pictures, opacity):
    below = np.zeros_like(pictures[0])
    for picture, share in zip(pictures, opacity, strict=True):
        below = share * picture + (1 - share) * below
    return below


def test_pictures_painted_over_one_another_are_their_weighted_mean():
    rng = np.random.default_rng(0)
    weights, pictures = rng.dirichlet(np.ones(11)), rng.random((11, 7, 5, 3))
    np.testing.assert_allclose(painted(pictures, opacities(weights)), np.tensordot(weights, pictures, 1), atol=1e-12)
    rows = rng.dirichlet(np.ones(7), size=3)
    np.testing.assert_array_equal(opacities(rows)[1], opacities(rows[1]))


def test_opacities_by_hand():
    np.testing.assert_allclose(opacities(np.array([0.5, 0.25, 0.25])), [1, 1 / 3, 1 / 4])
    np.testing.assert_array_equal(opacities(np.array([0.0, 1.0, 0.0])), [0, 1, 0])
    np.testing.assert_array_equal(opacities(np.zeros(3)), np.zeros(3))


def test_what_comes_back_is_weights_times_values():
    for hard in (False, True):
        found = search("something with robots and love", hard=hard)
        colours = np.array([film.colours for film in catalogue()])
        np.testing.assert_allclose(found.context, np.tensordot(found.weights, colours, 1), atol=1e-6)
        np.testing.assert_allclose(found.scaled, found.raw / 0.05, rtol=1e-5)
        exp = np.exp(found.scaled - found.scaled.max())
        np.testing.assert_allclose(found.soft, exp / exp.sum(), atol=1e-6)


# the catalogue


def test_the_catalogue():
    films = catalogue()
    assert len(films) == 24
    kinds = [film.genre for film in films]
    assert len(set(kinds)) == 8
    assert all(kinds.count(genre) == 3 for genre in kinds)
    assert kinds == sorted(kinds, key=kinds.index), "genre by genre, as the columns stand"
    for film in films:
        assert len(film.tags["en"]) == len(film.tags["ko"]) == video_search.most_tags() == 5
        assert len({f.tags["en"][0] for f in films if f.genre == film.genre}) == 1, "the genre is the first tag"
        for words in (film.title, film.description):
            assert re.search("[가-힣]", words["ko"]) and not re.search("[가-힣]", words["en"])
    assert len({film.title["en"] for film in films}) == len({film.title["ko"] for film in films}) == 24
    assert sorted(path.stem for path in video_search.FOLDER.glob("*.svg")) == sorted(film.id for film in films)


def test_posters_are_pictures_and_nothing_else():
    for film in catalogue():
        root = ElementTree.fromstring(video_search.poster(film.id))
        names = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert names <= {"svg", "rect", "circle", "ellipse", "path", "g"}, film.id
        assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)
        assert root.attrib["viewBox"] == "0 0 120 180"
        inks = ["#" + bytes(round(255 * c) for c in colour).hex() for colour in film.colours]
        assert root[0].attrib == {"width": "120", "height": "180", "fill": inks[0]}, "the first colour is the ground"
        assert all(ink in video_search.poster(film.id) for ink in inks), film.id


# Korean


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("오늘은 멜로가 좋아", "romance"),
        ("SF 영화 찾아줘", "SF"),
        ("SF랑 action", "SF, action"),
        ("웃긴 거", "funny"),  # 웃기 is the stem: the letters of the syllable count
        ("우주괴물", "space, monster"),
        ("로멘스 영화", "romance"),  # misspelt
        ("산에서", "mountains"),  # a stem of one syllable, with a particle
        ("산뜻한 산책", "산뜻한 산책"),  # and not the beginning of other words
        ("추천해 줘", "추천해 줘"),  # nothing that names
        ("ㅋㅋㅋ", "ㅋㅋㅋ"),
        ("  two   words ", "two words"),
    ],
)
def test_what_a_query_is_taken_for(query, sent):
    assert understand(query).sent == sent


def test_composed_and_decomposed_letters_are_the_same():
    assert understand(unicodedata.normalize("NFD", "오늘은 멜로가 좋아")).sent == "romance"


def test_what_is_not_known_is_named():
    read = understand("뷁쀍 멜로")
    assert (read.sent, read.unknown) == ("romance", ("뷁쀍",))
    assert [(word.typed, word.entry, word.english) for word in read.words] == [("멜로", "멜로", "romance")]


def test_the_films_own_tags_are_in_the_dictionary():
    for film in catalogue():
        for korean, english in zip(film.tags["ko"], film.tags["en"], strict=True):
            meaning = "SF" if korean == "SF" else english
            assert meaning in understand(korean + " 나오는 영화").sent.split(", "), korean


# how well


def rate(lang, part, tags=5):
    count = len(queries()[lang][part])
    return sum(compute.run(video_search.hits, part, lang, n, tags) for n in range(count)) / count


@pytest.mark.parametrize(
    ("lang", "part", "measured"),
    [("en", "seen", 20 / 20), ("en", "held_out", 20 / 20), ("ko", "seen", 20 / 20), ("ko", "held_out", 20 / 20)],
)
def test_hit_rate(lang, part, measured):
    """The expected genre is among the first three films; another processor may move one query over the border."""
    assert len(queries()[lang]["seen"]) + len(queries()[lang]["held_out"]) >= 30
    assert rate(lang, part) >= measured - 1 / 20


def test_one_tag_finds_less():
    """Measured: 14 of 20 and 13 of 20, against 20 with all five."""
    for part in ("seen", "held_out"):
        assert rate("en", part, tags=1) <= 0.8 < rate("en", part)


def test_without_the_dictionary_korean_does_not_work():
    """Measured on the held-out queries: 4 of 20 as they are against English tags, 6 of 20 against Korean tags."""
    model = compute.run(compute._model, "minilm")
    asked = queries()["ko"]["held_out"]
    for lang in ("en", "ko"):
        keys = torch.stack([key_of(embed(model, film.tags[lang])) for film in catalogue()])
        best = (embed(model, [query for query, _ in asked]) @ keys.T).topk(3).indices.tolist()
        hits = [genre in [catalogue()[n].genre for n in row] for (_, genre), row in zip(asked, best, strict=True)]
        assert sum(hits) / len(hits) <= 0.5


def test_queries_are_not_the_tags_themselves():
    for lang, parts in queries().items():
        tags = {tag.lower() for film in catalogue() for tag in film.tags[lang]}
        asked = [query for part in parts.values() for query, _ in part]
        assert len(set(asked)) == len(asked)
        assert not {query.lower() for query in asked} & tags
        known = {film.genre for film in catalogue()}
        assert {genre for part in parts.values() for _, genre in part} == known


# what the page says


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_try_1_sf_comes_first_and_everyone_gets_something(lang):
    found = search(tried(lang, 1))
    assert [film.genre for film in ranked(found)[:3]] == ["sf"] * 3
    assert (found.weights > 0).all()
    assert found.weights.sum() == pytest.approx(1, abs=1e-6)


def test_the_examples_of_issue_and_page():
    assert genres("find me an SF film", 3) == ["sf"] * 3
    assert genres("오늘은 멜로가 좋아", 3) == ["romance"] * 3
    for lang in ("en", "ko"):
        expected = {"example_1": "comedy", "example_2": "animation", "example_3": "thriller", "example_4": "horror"}
        for key, genre in expected.items():
            assert genres(page(lang)[key], 1) == [genre], page(lang)[key]


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_try_2_cold_is_hard_and_warm_is_even(lang):
    query = page(lang)["example"]
    hard = search(query, hard=True).weights
    away = [np.abs(search(query, temperature=t).weights - hard).max() for t in (1.0, 0.3, 0.1, 0.03, 0.01)]
    assert away == sorted(away, reverse=True)
    assert away[-1] < 0.07, "at 0.01 the winner has nearly everything"
    even = search(query, temperature=1.0).weights
    assert even.min() > 0.025
    assert even.max() < 0.07
    root = search(query, temperature=math.sqrt(384)).weights  # what √dₖ would do
    assert root.max() - root.min() < 0.002


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_try_3_horror_and_the_robot_share(lang):
    assert tried(lang, 3) == page(lang)["example_4"]
    found = search(tried(lang, 3))
    first = ranked(found)[:4]
    assert "horror" in {film.genre for film in first}
    assert "ninth_moon_post" in {film.id for film in first}
    assert (search(tried(lang, 3), hard=True).weights > 0).sum() == 1


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_try_4_not_is_hardly_heard(lang):
    assert genres(tried(lang, 4), 3) == ["horror"] * 3
    if lang == "ko":  # and why: the dictionary does not know it; asked in English, the word is there
        read = video_search.understand(tried(lang, 4))
        assert (read.sent, "않은" in read.unknown) == ("horror", True)
        assert "a film that is not scary" in page("ko")["try_4"]
        assert genres("a film that is not scary", 3) == ["horror"] * 3


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_try_5_one_tag_one_key(lang):
    found = search(page(lang)["example"], tags=1)
    for genre in {film.genre for film in catalogue()}:
        same = [w for w, film in zip(found.weights.tolist(), catalogue(), strict=True) if film.genre == genre]
        assert max(same) - min(same) < 1e-7


def test_try_6_it_looks_at_cake(models):
    from attention_core import capture

    seen = capture(models["minilm"], "I ate the cake and it was delicious")
    weights = seen.weights(layer=5, head=11)
    labels = [token.label for token in seen.tokens]
    assert labels[int(weights[labels.index("it")].argmax())] == "cake"


def test_numbers_in_the_texts_are_true():
    for lang in ("en", "ko"):
        assert "384" in page(lang)["how"]
        assert f"{math.sqrt(384):.1f}" in page(lang)["how"]
        assert str(len(catalogue())) in page(lang)["how"]
    assert len(compute.run(video_search._query, "love")) == 384
    assert 1 / len(catalogue()) == pytest.approx(0.04, abs=0.005)
    keys = compute.run(video_search._keys, 5)
    torch.testing.assert_close(keys.norm(dim=-1), torch.ones(24))
