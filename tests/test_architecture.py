"""The layering rule, the one list of pages, and the words in both languages, as tests."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from string import Formatter

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = [p for folder in ("attention_core", "figures", "ui", "pages") for p in (ROOT / folder).rglob("*.py")]
LAYERS = {  # what each layer must not know
    "attention_core": {"figures", "ui", "pages", "streamlit", "plotly", "pandas"},
    "figures": {"ui", "pages", "streamlit", "transformers"},
    "ui": {"pages", "torch", "transformers", "plotly"},
    "pages": {"torch", "transformers", "plotly", "attention_core", "pages", "numpy"},
}
LANGUAGES = ("en", "ko")


def imports(path):
    """Return the top names of what a file imports; those under TYPE_CHECKING cost nothing and do not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    idle = {
        id(node)
        for check in ast.walk(tree)
        if isinstance(check, ast.If) and getattr(check.test, "id", "") == "TYPE_CHECKING"
        for node in ast.walk(check)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in idle:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize(("folder", "forbidden"), LAYERS.items())
def test_layers_look_down_only(folder, forbidden):
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    for path in files:
        assert not imports(path) & forbidden, path


def test_transformers_is_known_to_few():
    knows = {
        p.relative_to(ROOT).as_posix() for p in (ROOT / "attention_core").rglob("*.py") if "transformers" in imports(p)
    }
    assert knows <= {
        "attention_core/interface.py",
        "attention_core/captured.py",
        "attention_core/edits.py",
        "attention_core/generating.py",
        "attention_core/tokens.py",
        "attention_core/models/loading.py",
        "attention_core/models/embedded.py",
        "attention_core/models/files.py",
        "attention_core/models/sees.py",
        "attention_core/models/seeing.py",
    }


def fresh(code):
    """Run some code in a new Python and return what it prints."""
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_a_page_is_there_before_torch():
    """The first visitor of a fresh server sees the page at once; torch and transformers take seconds."""
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "ui").rglob("*.py")]
    assert len(modules) > 40
    said = fresh(
        f"import sys\nfor m in {modules}: __import__(m)\nprint({{'torch', 'transformers'}} & set(sys.modules))"
    )
    assert said.strip() == "set()"


def test_warm_imports_all_there_is():
    """After it no thread imports a part of torch or transformers that another one may be importing too."""
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in PYTHON if "attention_core" in path.parts
    ]
    said = fresh(
        "import sys\nfrom attention_core import compute\ncompute.warm()\nbefore = set(sys.modules)\n"
        f"for m in {modules}: __import__(m)\n"
        "print({m.split('.')[0] for m in set(sys.modules) - before})"
    )
    assert said.strip() == "{'attention_core'}"


def test_every_page_is_registered_and_short():
    from ui.registry import PAGES

    on_disk = {f"pages/{path.name}" for path in (ROOT / "pages").glob("*.py")}
    assert {page.path for page in PAGES} == on_disk | {"app.py"}
    for path in [*(ROOT / "pages").glob("*.py"), ROOT / "app.py"]:
        source = path.read_text(encoding="utf-8")
        assert len(source.splitlines()) <= 80, path
        assert not [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.ClassDef)], path
        assert "session_state" not in source, path
        assert "st.html" not in source, path


def texts(lang):
    found = {}
    for path in (ROOT / "assets" / "text" / lang).glob("*.toml"):
        for section, keys in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for key, text in keys.items():
                assert f"{section}.{key}" not in found, f"{section}.{key} stands in two files"
                found[f"{section}.{key}"] = text
    assert found
    return found


def places(text):
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_both_languages_say_the_same_things():
    english, korean = (texts(lang) for lang in LANGUAGES)
    assert english.keys() == korean.keys()
    for key, text in english.items():
        assert places(text) == places(korean[key]), key
        assert text.strip(), key
        assert korean[key].strip(), key


def test_korean_is_korean():
    for key, text in texts("ko").items():
        assert re.search(r"[가-힣]", text), key


def test_every_text_that_code_asks_for_exists():
    known = texts("en")
    sections = {key.split(".")[0] for key in known}
    asked = set()
    for path in [*PYTHON, ROOT / "app.py"]:
        asked |= set(re.findall(rf'"((?:{"|".join(sections)})\.[a-z_A-Z]+)"', path.read_text(encoding="utf-8")))
    assert asked
    assert asked <= known.keys()


def test_the_project_speaks_of_itself_alone():
    for path in [*PYTHON, ROOT / "app.py", *ROOT.glob("*.md"), *(ROOT / "static").glob("*.css")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/root/|/work/|pypi\.org|pythonhosted|registry\.npmjs", text), path
