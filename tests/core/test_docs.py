"""Every example in docs/ runs, block by block, from its first line to its last."""

import re
from pathlib import Path

import pytest

EXAMPLES = {"one_head", "your_own_module", "long_texts"}
DOCS = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_there_are_some():
    assert {page.stem for page in DOCS} >= EXAMPLES
    assert all(len(blocks(page)) >= 4 for page in DOCS if page.stem in EXAMPLES)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_the_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    there = {}
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), there)
