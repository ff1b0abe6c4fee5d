"""How `./dev test` spreads tests over processes."""

import pytest

from controlplane.embedded.__main__ import SPREAD, spread


@pytest.mark.parametrize(
    "arguments", [[], ["-q"], ["-q", "-m", "not browser"], ["-k", "web", "-x"], ["-m", "crash"]]
)
def test_all_tests_are_spread_over_the_processors(arguments: list[str]) -> None:
    assert spread(arguments) == SPREAD


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
def test_whoever_says_how_is_obeyed(arguments: list[str]) -> None:
    assert spread(arguments) == ()
