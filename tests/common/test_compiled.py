"""Kernels are recompiled when one of their sources has changed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from apps.classification.core.matrix import Scale
from apps.common.core.compiled import ROOT, digest, jit, sources
from apps.inventory.core.snapshot import Floats

CHAIN = {
    "apps/__init__.py": "",
    "apps/kernel.py": "from apps.middle import (\n    other,\n    half,\n)\n",
    "apps/middle.py": "    from apps import constant\nfrom apps.adjacent import ONE\nhalf = 1\n",
    "apps/adjacent.py": "ONE = 1\n",
    "apps/constant.py": "VALUE = 2\n",
    "apps/apart.py": "VALUE = 3\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "apps").mkdir()
    for name, text in CHAIN.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["apps/kernel.py", "apps/middle.py", "apps/constant.py", "apps/adjacent.py"]
)
def test_a_change_of_an_imported_module_changes_the_digest(tree: Path, name: str) -> None:
    before = digest("apps.kernel", tree)
    (tree / name).write_text(CHAIN[name] + "# changed\n")
    assert digest("apps.kernel", tree) != before


def test_a_change_elsewhere_does_not(tree: Path) -> None:
    before = digest("apps.kernel", tree)
    (tree / "apps/apart.py").write_text("VALUE = 4\n")
    assert digest("apps.kernel", tree) == before


def test_modules_that_import_each_other_have_a_digest(tree: Path) -> None:
    (tree / "apps/constant.py").write_text("import apps.kernel\n")
    assert len(digest("apps.kernel", tree)) == 16


def test_the_constants_a_kernel_is_compiled_with_count() -> None:
    source = (ROOT / "apps/placement/core/front/genome.py").read_text()
    assert "from apps.placement.core.front.archive import GRAIN" in source
    assert digest("apps.placement.core.front.nsga2_kernels", ROOT) != digest(
        "apps.placement.core.front.genome", ROOT
    )


def records_of(signatures: Any) -> Iterator[type]:
    """Classes of the named tuples among the arguments of some signatures."""
    for argument in (argument for signature in signatures for argument in signature):
        if isinstance(argument, types.BaseNamedTuple):
            yield argument.instance_class  # type: ignore[attr-defined]


def test_kernels_import_the_records_that_they_take() -> None:
    from apps.classification.core.estimators import ESTIMATORS  # noqa: PLC0415 - numba
    from apps.placement.core.front import search  # noqa: PLC0415 - numba
    from apps.placement.core.problem.examples import (  # noqa: PLC0415 - numba
        InstanceSpec,
        generate_instance,
    )
    from apps.placement.core.solver import registry  # noqa: PLC0415 - numba

    instance = generate_instance(InstanceSpec(4, kinds=2, nodes_per_rack=1), 0)
    search.prepare(instance)
    registry.prepare(instance, {"P": 1.0, "D": 1.0, "C": 1.0})
    model = ESTIMATORS["blend"].fit(1.0 + np.eye(6), scale=Scale.LOG)
    model.fold(np.ones((1, 6)), np.arange(6)[None] < 2)

    kernels = [
        (name, kernel)
        for name, module in list(sys.modules.items())
        if name.startswith("apps.")
        for kernel in list(vars(module).values())
        if isinstance(kernel, Dispatcher) and kernel.__module__ == name
    ]
    taken = {
        (name, record)
        for name, kernel in kernels
        for record in records_of(kernel.signatures)
        if record.__module__.startswith("apps.")
    }
    missing = {
        (name, record.__name__)
        for name, record in taken
        if Path(str(sys.modules[record.__module__].__file__)) not in sources(name, ROOT)
    }
    assert len({record for _, record in taken}) >= 5
    assert missing == set()


def test_machine_code_lies_beside_the_source_under_its_digest() -> None:
    from apps.placement.core.problem import evaluator  # noqa: PLC0415 - imports numba

    folder = Path(evaluator.__file__).parent / "__pycache__"
    assert (folder / f"evaluator-{digest(evaluator.__name__, ROOT)}").is_dir()


def test_options_reach_the_compiler() -> None:
    def total(x: Floats) -> float:
        return float(x.sum())

    compiled: Any = jit(fastmath=True)(total)
    assert compiled.targetoptions["fastmath"]
    assert compiled.targetoptions["nogil"]
    assert compiled(np.ones(3)) == 3.0


def test_a_kernel_said_to_make_no_arrays_that_makes_one_is_refused() -> None:
    def twice(x: Floats) -> float:
        return float((x + x).sum())

    with pytest.raises(NumbaError, match="NRT required"):
        jit(makes_arrays=False)(twice)(np.ones(3))
