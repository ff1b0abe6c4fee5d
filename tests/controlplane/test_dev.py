"""The `dev` script in checkouts of its own, with requirements that need no download."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.embedded.instance import PROJECT

pytestmark = pytest.mark.service

# The Python a newcomer has, not the environment these tests run in.
PYTHON = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
WITHOUT = """
import runpy, sys
for name in {names!r}:
    sys.modules[name] = None
sys.argv = ["./dev", *{arguments!r}]
runpy.run_path("dev", run_name="__main__")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copy(PROJECT / "dev", tmp_path / "dev")
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "base.txt").write_text("")
    (tmp_path / "requirements" / "dev.txt").write_text("# nothing either\n")
    package = tmp_path / "controlplane" / "embedded"
    package.mkdir(parents=True)
    (package / "__main__.py").write_text("import sys\nprint('ran', *sys.argv[1:])\n")
    return tmp_path


def dev(
    checkout: Path, *arguments: str, without: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    program = WITHOUT.format(names=without, arguments=list(arguments))
    return subprocess.run(  # noqa: S603  (our own script)
        [PYTHON, "-c", program], cwd=checkout, capture_output=True, text=True, check=False
    )


def installed(checkout: Path) -> set[str]:
    known: dict[str, str] = json.loads((checkout / ".venv" / "installed.json").read_text())
    return set(known)


def test_without_a_command_the_usage_is_printed(checkout: Path) -> None:
    done = dev(checkout)
    assert done.returncode == 2
    assert "usage: ./dev COMMAND" in done.stderr


def test_help_exits_with_zero(checkout: Path) -> None:
    done = dev(checkout, "--help")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_first_use_creates_the_environment(checkout: Path) -> None:
    done = dev(checkout, "berth", "list", "-o", "json")
    assert done.stdout.splitlines()[-1] == "ran berth list -o json"
    assert installed(checkout) == {"base"}


def test_a_second_use_installs_nothing(checkout: Path) -> None:
    dev(checkout, "berth")
    assert dev(checkout, "berth").stdout == "ran berth\n"


def test_changed_requirements_are_installed_again(checkout: Path) -> None:
    dev(checkout, "berth")
    (checkout / "requirements" / "base.txt").write_text("# changed\n")
    assert "Installing" in dev(checkout, "berth").stdout


def test_running_after_testing_installs_nothing(checkout: Path) -> None:
    dev(checkout, "test")
    assert installed(checkout) == {"base", "dev"}
    assert dev(checkout, "run").stdout == "ran run\n"


def test_benchmarks_get_the_packages_that_they_compare_with(checkout: Path) -> None:
    dev(checkout, "bench", "classification")
    assert installed(checkout) == {"base", "dev"}


def test_a_python_with_pip_but_without_venv_works(checkout: Path) -> None:
    done = dev(checkout, "berth", without=("ensurepip",))
    assert done.stdout.splitlines()[-1] == "ran berth"
    assert not (checkout / ".venv" / "bin" / "pip").exists()


def test_a_python_without_both_prints_what_to_install(checkout: Path) -> None:
    done = dev(checkout, "berth", without=("ensurepip", "pip"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt-get install python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_an_unavailable_requirement_is_reported(checkout: Path) -> None:
    pin = f"./missing-1-py3-none-any.whl --hash=sha256:{'0' * 64}\n"
    (checkout / "requirements" / "base.txt").write_text(pin)
    done = dev(checkout, "berth")
    assert done.returncode == 1
    assert "The packages could not be installed" in done.stderr.splitlines()[-1]
    assert not (checkout / ".venv" / "installed.json").exists()
