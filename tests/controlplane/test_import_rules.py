"""The import rule that hides the truth of emulated applications, on made-up import graphs."""

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from grimp import ImportGraph

from controlplane.embedded.instance import PROJECT

NAME = "only the emulated backend and the testbed know the truth"
TRUTH = "apps.emulation.core.truth"
APPS = sorted(path.parent.name for path in Path(PROJECT).glob("apps/*/__init__.py"))
ALLOWED = ["apps.execution.backends.emulated.site", "apps.testbed.core.offline"]
FORBIDDEN = [
    "controlplane.urls",
    "apps.execution.services.launches",
    "apps.execution.backends.other",
    *(f"apps.{app}.core.numbers" for app in APPS if app not in ("emulation", "testbed")),
]


def is_kept(importer: str) -> bool:
    """Whether the rule of pyproject.toml allows ``importer`` to import the truth."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
    options = dict(next(one for one in settings["contracts"] if one["name"] == NAME))
    # importlinter has no types for its contracts
    module: Any = import_module(f"importlinter.contracts.{options.pop('type')}")
    graph = ImportGraph()
    for name in [importer, TRUTH, *ALLOWED]:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            graph.add_module(".".join(parts[:length]))
    graph.add_import(importer=importer, imported=TRUTH)
    contract = module.ProtectedContract(
        name=options.pop("name"), session_options=settings, contract_options=options
    )
    return bool(contract.check(graph, verbose=False).kept)


@pytest.mark.parametrize("importer", FORBIDDEN)
def test_a_module_may_not_import_the_truth(importer: str) -> None:
    assert not is_kept(importer)


@pytest.mark.parametrize("importer", ALLOWED)
def test_the_emulated_backend_and_the_testbed_may(importer: str) -> None:
    assert is_kept(importer)


def test_every_app_is_covered() -> None:
    assert {"placement", "dashboard", "classification", "common"} <= set(APPS)
