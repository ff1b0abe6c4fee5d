"""``compile_kernels`` compiles what the workers and the emulator load."""

import subprocess
import sys
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from controlplane.embedded.instance import PROJECT

COUNT = """
import sys

import django
from django.core.management import call_command

def loaded():
    modules = [m for name, m in sys.modules.items() if name.startswith("apps.")]
    found = {f for m in modules for f in vars(m).values() if hasattr(f, "stats")}
    return [(f.__name__, sum(f.stats.cache_misses.values())) for f in found if f.signatures]

django.setup()
call_command("compile_kernels", "scheduling", "classification", "emulation")
print(len(loaded()) > 20, [name for name, missed in loaded() if missed])
"""


def test_the_next_process_loads_all_kernels() -> None:
    output = StringIO()
    call_command("compile_kernels", "scheduling", "classification", "emulation", stdout=output)
    assert output.getvalue().splitlines() == [
        "compiled the kernels of scheduling",
        "compiled the kernels of classification",
        "compiled the kernels of emulation",
    ]
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", COUNT], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    assert done.stdout.splitlines()[-1] == "True []"


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(CommandError, match="invalid choice: 'lab'"):
        call_command("compile_kernels", "lab")
