"""Kernels are compiled anew when any of their sources changed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.errors import NumbaError

from apps.common.core.compiled import ROOT, digest, jit
from apps.inventory.core.snapshot import Floats

CHAIN = {
    "apps/__init__.py": "",
    "apps/kernel.py": "from apps.middle import (\n    other,\n    half,\n)\n",
    "apps/middle.py": "    from apps import constant\nhalf = 1\n",
    "apps/constant.py": "VALUE = 2\n",
    "apps/apart.py": "VALUE = 3\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "apps").mkdir()
    for name, text in CHAIN.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", ["apps/kernel.py", "apps/middle.py", "apps/constant.py"])
def test_a_change_of_what_a_kernel_takes_in_changes_its_digest(tree: Path, name: str) -> None:
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
    source = (ROOT / "apps/placement/core/genome.py").read_text()
    assert "from apps.placement.core.front import GRAIN" in source
    assert digest("apps.placement.core.nsga2_kernels", ROOT) != digest(
        "apps.placement.core.genome", ROOT
    )


def test_machine_code_lies_beside_the_source_under_its_digest() -> None:
    from apps.placement.core import kernels  # noqa: PLC0415 - imports numba

    folder = Path(kernels.__file__).parent / "__pycache__"
    assert (folder / f"kernels-{digest(kernels.__name__, ROOT)}").is_dir()


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
