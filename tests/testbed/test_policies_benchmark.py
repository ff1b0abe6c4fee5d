"""Options of the comparison of policies."""

from argparse import ArgumentTypeError

import pytest

from benchmarks.policies import names


def test_policies_are_read_in_their_order() -> None:
    assert names("tarcil,expected") == ["tarcil", "expected"]


def test_an_unknown_policy_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ArgumentTypeError, match="no policy 'best'; the policies are expected, "):
        names("tarcil,best")
