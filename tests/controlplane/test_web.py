"""Modules that the web process imports."""

import subprocess
import sys

import pytest

IMPORTED = """
import sys

import controlplane.wsgi
from django.urls import get_resolver

patterns = get_resolver().url_patterns
while patterns:
    one = patterns.pop()
    patterns += getattr(one, "url_patterns", [])
print(sorted(name for name in sys.modules if name.split(".")[0] == "{package}")[:3])
"""


@pytest.mark.parametrize("package", ["numba", "sklearn"])
def test_the_web_process_does_not_import_what_only_workers_need(package: str) -> None:
    # numba costs a second and 100 MB per process; workers run the code that needs it
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", IMPORTED.format(package=package)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_the_guard_sees_what_is_imported() -> None:
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", IMPORTED.format(package="rest_framework")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "rest_framework" in done.stdout
