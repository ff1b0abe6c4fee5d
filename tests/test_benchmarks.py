"""Every benchmark starts as `./dev bench` starts it: in a process without Django's settings."""

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.embedded.instance import PROJECT

_IMPORT = """
import importlib, sys, traceback
for name in sys.argv[1:]:
    try:
        importlib.import_module(f"benchmarks.{name}")
    except Exception:
        print(name)
        traceback.print_exc()
"""


def test_every_benchmark_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    names = sorted(path.stem for path in Path(PROJECT, "benchmarks").glob("[!_]*.py"))
    assert "scheduling" in names
    done = subprocess.run(  # noqa: S603 - our own modules
        [sys.executable, "-c", _IMPORT, *names],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "", done.stderr
