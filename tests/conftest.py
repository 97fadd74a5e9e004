"""What all tests share: a fixed seed, the two embedded models (loaded once), and a way to open pages."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
torch.set_num_threads(1)  # as in the app: beside other work, a second one costs more than it saves


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def models() -> dict:
    """Both embedded models, on the CPU."""
    from attention_core import load_model

    return {name: load_model(name, "cpu") for name in ("minilm", "smollm2")}


@pytest.fixture(
    params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
)
def device(request: pytest.FixtureRequest) -> str:
    """Every device that this machine has; the GPU's tests run where there is one."""
    return request.param


@pytest.fixture
def open_page() -> Callable:
    """Open a page by its link."""
    from streamlit.testing.v1 import AppTest

    def opener(path: str, **query: str) -> AppTest:
        page = AppTest.from_file(ROOT / "app.py", default_timeout=120)
        page.query_params.update(query)
        if path == "app.py":
            return page.run()
        page.run()
        page.query_params.update(query)
        return page.switch_page(path).run()

    return opener
