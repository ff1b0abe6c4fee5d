"""How `./dev test` spreads tests over processes."""

import pytest

from controlplane.embedded.__main__ import PARALLEL_OPTIONS, parallel_options


@pytest.mark.parametrize(
    "arguments", [[], ["-q"], ["-q", "-m", "not browser"], ["-k", "web", "-x"], ["-m", "crash"]]
)
def test_all_tests_are_spread_over_the_processors(arguments: list[str]) -> None:
    assert parallel_options(arguments) == PARALLEL_OPTIONS


@pytest.mark.parametrize(
    "arguments",
    [
        ["-n", "0"],
        ["-n4"],
        ["--numprocesses=2"],
        ["--pdb"],
        ["-s"],
        ["tests/cli"],
        ["-q", "tests/conftest.py::test_it"],
    ],
)
def test_explicit_options_are_not_changed(arguments: list[str]) -> None:
    assert parallel_options(arguments) == ()
