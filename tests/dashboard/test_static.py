"""Vendored scripts, style tokens and templates."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import plotly.graph_objects as go
import plotly.offline
import pytest

from apps.dashboard.selectors.shell import RAIL

STATIC = Path("static")
VENDORED = STATIC / "vendor" / "plotly"
BUILD = Path("requirements") / "plotly"
TEMPLATES = sorted(Path("templates").rglob("*.html"))
SCRIPTS = sorted((STATIC / "berth" / "js").rglob("*.js"))
PAGE_SCRIPTS = sorted((STATIC / "berth" / "js" / "pages").glob("*.js"))


def test_the_script_is_of_the_version_that_the_python_package_writes_for() -> None:
    version = (VENDORED / "VERSION").read_text(encoding="ascii").strip()
    assert version == plotly.offline.get_plotlyjs_version()


def test_the_script_says_the_same_version() -> None:
    script = (VENDORED / "plotly.min.js").read_text(encoding="utf-8")
    version = (VENDORED / "VERSION").read_text(encoding="ascii").strip()
    assert f"plotly.js (scatter, bar, heatmap - minified) v{version}" in script[:200]
    assert f'.version="{version}"' in script


def test_the_script_is_built_from_packages_of_this_version() -> None:
    version = (VENDORED / "VERSION").read_text(encoding="ascii").strip()
    asked = json.loads((BUILD / "package.json").read_text(encoding="utf-8"))
    locked = json.loads((BUILD / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert asked["dependencies"]["plotly.js"] == version
    assert {name: locked[f"node_modules/{name}"]["version"] for name in asked["dependencies"]} == (
        asked["dependencies"]
    )
    assert f"v{version}, MIT" in asked["scripts"]["build"]


def test_the_script_is_the_one_that_was_built() -> None:
    digest, name = (VENDORED / "SHA256SUMS").read_text(encoding="ascii").split()
    assert hashlib.sha256((VENDORED / name).read_bytes()).hexdigest() == digest


def test_the_script_has_the_traces_that_the_figures_add() -> None:
    bundle = (BUILD / "bundle.js").read_text(encoding="utf-8")
    bundled = {"scatter", *re.findall(r'"plotly\.js/lib/(?!core)(\w+)"', bundle)}
    modules = sorted(Path("apps/dashboard/figures").glob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in modules]
    names = {name for text in texts for name in re.findall(r"\.add_(\w+)\(", text)}
    traces = {str(kind) for kind in go.Figure(layout={"template": "plotly"}).layout.template.data}
    assert names & traces == bundled


def test_both_dark_blocks_of_the_tokens_are_the_same() -> None:
    css = (STATIC / "berth" / "css" / "tokens.css").read_text(encoding="utf-8")
    by_system = re.search(r':root:not\(\[data-theme="light"\]\) \{(.*?)\}', css, re.DOTALL)
    by_choice = re.search(r':root\[data-theme="dark"\] \{(.*?)\}', css, re.DOTALL)
    assert by_system is not None
    assert by_choice is not None
    assert by_system.group(1).split() == by_choice.group(1).split()


@pytest.mark.parametrize("template", TEMPLATES, ids=str)
def test_templates_hold_no_inline_style_or_script(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert not re.search(r"\sstyle=|\son[a-z]+=|<style", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_scripts_neither_evaluate_text_nor_reach_other_hosts(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert not re.search(
        r"\beval\(|new Function|innerHTML\s*=(?!=)|https?://(?!www\.w3\.org)", text
    )


def loaded_with(script: Path) -> set[Path]:
    """Return a script and all that it imports, directly or not."""
    loaded, pending = set(), [script]
    while pending:
        path = pending.pop()
        if path in loaded:
            continue
        loaded.add(path)
        imports = re.findall(r'from "(\.{1,2}/[^"]+)"', path.read_text(encoding="utf-8"))
        pending += [(path.parent / name).resolve().relative_to(Path.cwd()) for name in imports]
    return loaded


@pytest.mark.parametrize("script", PAGE_SCRIPTS, ids=lambda path: path.stem)
def test_the_scripts_of_a_page_are_small_without_the_charts(script: Path) -> None:
    loaded = loaded_with(STATIC / "berth" / "js" / "app.js") | loaded_with(script)
    assert len(loaded) > 10
    assert sum(len(gzip.compress(path.read_bytes())) for path in loaded) < 80_000


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_every_script_imports_existing_files_by_relative_path(script: Path) -> None:
    names = re.findall(
        r'^(?:import .*|\} )from "([^"]+)"', script.read_text("utf-8"), re.MULTILINE
    )
    names += re.findall(r'\bimport\("([^"]+)"\)', script.read_text("utf-8"))
    assert [name for name in names if not (script.parent / name).is_file()] == []


def test_the_compressed_script_is_the_same_script() -> None:
    packed = (VENDORED / "plotly.min.js.gz").read_bytes()
    assert gzip.decompress(packed) == (VENDORED / "plotly.min.js").read_bytes()
    assert len(packed) < 500_000


def test_each_entry_of_the_navigation_has_its_own_icon() -> None:
    sheet = Path("templates/dashboard/partials/icons.svg").read_text(encoding="utf-8")
    icons = [item.icon for group in RAIL for item in group]
    assert [icon for icon in icons if f'<symbol id="i-{icon}"' not in sheet] == []
    assert len(set(icons)) == len(icons)
