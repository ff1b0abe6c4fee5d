"""Functions that read rows of single projects: found in the source, not by their results.

A function that reads such rows takes what limits them: the caller, the request, the jobs that the
caller may see, or a row that the caller was given before.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PRIVATE_MODELS: Final = frozenset(
    {
        *("Job", "Batch", "Decision", "Allocation", "Launch", "Migration", "JobSample"),
        *("Event", "Operation", "PredictionError", "ContainerClass"),
        *("Plan", "PlannedMigration", "Token", "Membership"),
    }
)
PRIVATE_TABLE: Final = re.compile(
    r"\b(workloads_(job|batch)|scheduling_\w+|execution_\w+|operations_\w+|placement_(move|plan)"
    r"|classification_predictionerror|placement_containerclass)\b"
)
LIMITS: Final = re.compile(
    r"\b(Principal|Request|HttpRequest|User|QuerySet\[Job\]|Job|Decision|Batch|Operation)\b"
)


def unlimited_reads(module: str, source: str) -> Iterator[str]:
    """Yield ``module.function`` of each function that reads private rows without a limit."""
    tree = ast.parse(source)
    statements = {name for name, text in _constants(tree) if PRIVATE_TABLE.search(text)}
    for function in _functions(tree):
        if _reads_private_rows(function, statements) and not _is_limited(function):
            yield f"{module}.{function.name}"


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the functions and methods; an inner function belongs to its outer one."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from (inner for inner in node.body if isinstance(inner, ast.FunctionDef))
        elif isinstance(node, ast.FunctionDef):
            yield node


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield name and value of the constants of a module."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, ast.unparse(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, ast.unparse(value)


def _reads_private_rows(function: ast.FunctionDef, statements: set[str]) -> bool:
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="objects"):
                if name in PRIVATE_MODELS:
                    return True
            case ast.Name(id=name) if name in statements:
                return True
            case ast.Constant(value=str(text)) if PRIVATE_TABLE.search(text):
                return True
    return False


def _is_limited(function: ast.FunctionDef) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    annotations = [ast.unparse(arg.annotation) for arg in arguments if arg.annotation is not None]
    return any(LIMITS.search(annotation) for annotation in annotations)


def modules_of_pages_and_api(root: Path) -> Iterator[tuple[str, str]]:
    """Yield name and source of every module whose data reaches pages or the REST API."""
    rooms = ("selectors", "selectors.py", "api", "views", "templatetags")
    for path in sorted((root / "apps").glob("*/**/*.py")):
        parts = path.relative_to(root).parts
        if parts[2] in rooms and parts[1] != "testbed":
            yield (
                ".".join(parts[1:]).removesuffix(".py").removesuffix(".__init__"),
                path.read_text(),
            )
