"""The pages about the four systems name modules, files, tests and commands that exist."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from benchmarks._results import published
from controlplane.cli.main import parser_for
from controlplane.embedded.instance import PROJECT

DOCS = PROJECT / "docs"
MECHANISMS = {"paragon": ("P", 14), "quasar": ("Q", 13), "tarcil": ("T", 13), "clavismo": ("C", 9)}
STATES = ("done", "differs", "missing")
APPS = "|".join(sorted(path.name for path in (PROJECT / "apps").iterdir() if path.is_dir()))
NAME = re.compile(rf"`((?:controlplane|{APPS})(?:\.\w+)+)`")
FILE = re.compile(r"`((?:apps|benchmarks|tests)/[\w/]+\.py)(?:::(\w+))?`")
LINK = re.compile(r"\]\(([\w./-]*\.md)?(?:#([\w-]+))?\)")


def text(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def commands(page: str, program: str) -> list[list[str]]:
    lines = re.findall(rf"^    ({re.escape(program)} .*)$", page, flags=re.MULTILINE)
    return [shlex.split(line) for line in lines]


def mechanisms(page: str) -> list[list[str]]:
    (table,) = (t.cells for t in published(page) if t.cells[0][:2] == ["id", "mechanism"])
    return table[1:]


@cache
def definitions(path: Path) -> dict[str, ast.stmt]:
    """Return what a module defines at its top level, by name."""
    return dict(defined(ast.parse(path.read_text()).body))


def defined(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, node
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from ((each.id, node) for each in targets if isinstance(each, ast.Name))


def exists(name: str) -> bool:
    """Whether a module, or a name that a module or its class defines, exists."""
    parts = name.removeprefix("apps.").split(".")
    root = PROJECT if parts[0] == "controlplane" else PROJECT / "apps"
    for end in range(len(parts), 0, -1):
        module = root.joinpath(*parts[:end])
        path = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
        if path.exists():
            return _holds(path, parts[end:])
    return False


def _holds(path: Path, names: list[str]) -> bool:
    if not names:
        return True
    found = definitions(path).get(names[0])
    if found is None or len(names) == 1:
        return found is not None
    if not isinstance(found, ast.ClassDef) or len(names) > 2:
        return False
    return names[1] in dict(defined(found.body))


def headings(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("scheduling.core.paragon.selection", True),
        ("scheduling.core.paragon.selection.search", True),
        ("scheduling.core.paragon.selection.LIMIT", True),
        ("scheduling.core.fused.FusedTarcil", True),
        ("placement.core.front.nsga2.FrontSearch.advance", True),
        ("placement.core.front.nsga2.FrontSearch.nosuch", False),
        ("scheduling.core.paragon.selection.nosuch", False),
        ("scheduling.core.nosuch", False),
        ("scheduling.nosuch.paragon", False),
    ],
)
def test_a_name_that_is_not_defined_is_found_out(name: str, is_there: bool) -> None:
    assert exists(name) is is_there


@pytest.mark.parametrize("page", MECHANISMS)
def test_every_module_and_function_that_a_page_names_exists(page: str) -> None:
    names = NAME.findall(text(page))
    assert len(names) > 10
    assert [name for name in names if not exists(name)] == []


@pytest.mark.parametrize("page", MECHANISMS)
def test_every_file_and_test_that_a_page_names_exists(page: str) -> None:
    files = FILE.findall(text(page))
    assert len(files) > 3
    assert [
        f"{path}::{name}"
        for path, name in files
        if not (PROJECT / path).exists() or (name and name not in definitions(PROJECT / path))
    ] == []


@pytest.mark.parametrize("page", MECHANISMS)
def test_every_mechanism_has_its_code_and_its_state(page: str) -> None:
    letter, count = MECHANISMS[page]
    rows = mechanisms(text(page))
    assert [row[0] for row in rows] == [f"{letter}{n}" for n in range(1, count + 1)]
    states = [row[3].split()[0].rstrip(":;,") for row in rows]
    assert set(states) <= set(STATES)
    without_code = {row[0] for row, state in zip(rows, states, strict=True)
                    if state != "missing" and not NAME.search(row[2])}  # fmt: skip
    assert without_code == set()


@pytest.mark.parametrize("page", MECHANISMS)
def test_every_command_of_a_page_is_accepted(page: str) -> None:
    lines = commands(text(page), "berth")
    assert len(lines) > 5
    for _, *argv in lines:
        parser_for(argv).parse_args(argv)
    known = definitions(PROJECT / "apps/scheduling/core/registry.py")["POLICIES"]
    assert isinstance(known, ast.AnnAssign)
    assert isinstance(known.value, ast.Dict)
    policies = {ast.literal_eval(key) for key in known.value.keys if key is not None}
    named = {name for line in lines if "--policy" in line
             for name in line[line.index("--policy") + 1].split(",")}  # fmt: skip
    assert named <= policies


@pytest.mark.parametrize("page", MECHANISMS)
def test_every_benchmark_and_management_command_of_a_page_exists(page: str) -> None:
    named = re.findall(r"\./dev (bench|manage) (\w+)", text(page))
    folders = {"bench": "benchmarks", "manage": "apps/*/management/commands"}
    assert [
        name for kind, name in named if not list(PROJECT.glob(f"{folders[kind]}/{name}.py"))
    ] == []


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_link_of_a_page_leads_to_a_heading(page: str) -> None:
    path = DOCS / page
    broken = []
    for file, anchor in LINK.findall(path.read_text()):
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in headings(target.read_text())):
            broken.append(f"{file}#{anchor}")
    assert broken == []
