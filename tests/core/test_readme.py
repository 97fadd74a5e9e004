"""What the README shows in Python runs, from the first line to the last."""

import re
from pathlib import Path

import torch

README = Path(__file__).parents[2] / "README.md"


def test_the_python_in_the_readme_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    there = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), there)
    assert there["trace"].weights[6, 4].item() > 0.6
    torch.testing.assert_close(there["trace"].weights.sum(-1), torch.ones(10))
