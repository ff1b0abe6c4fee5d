"""Declare the verbs of `berth` and the types of their arguments."""

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from controlplane.cli.output import FORMATS

if TYPE_CHECKING:
    from controlplane.cli.client import BerthClient

    Verb = Callable[[BerthClient, Namespace], int]
    AddVerb = Callable[[str, Verb], ArgumentParser]


class Verbs:
    """The verbs of one command line, or of one noun."""

    def __init__(self, subparsers: Any) -> None:
        """Take what `ArgumentParser.add_subparsers` returns."""
        self._subparsers = subparsers

    def add(self, name: str, run: "Verb") -> ArgumentParser:
        """Add a verb that calls the server; its docstring is the help text."""
        parser: ArgumentParser = self._subparsers.add_parser(
            name, parents=[_server_options()], help=_summary(run), description=_summary(run)
        )
        parser.set_defaults(run=run, offline=None)
        return parser

    def add_offline(
        self, name: str, run: Callable[[Namespace], int], epilog: str | None
    ) -> ArgumentParser:
        """Add a verb that needs no server."""
        parser: ArgumentParser = self._subparsers.add_parser(
            name, parents=[_output_options()], help=_summary(run), epilog=epilog
        )
        parser.set_defaults(offline=run)
        return parser

    def noun(self, name: str, about: str) -> "Verbs":
        """Return the verbs grouped under a noun."""
        parser: ArgumentParser = self._subparsers.add_parser(name, help=about, description=about)
        # no metavar, so that the error for a missing verb lists the verbs
        return Verbs(parser.add_subparsers(required=True))


def argument_type(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Turn a ValueError of ``read`` into a usage error of argparse."""

    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise ArgumentTypeError(f"{text!r}: {error}") from error

    return convert


def positive_int(text: str) -> int:
    """Read a whole number of at least 1."""
    return whole_number(text, low=1)


def whole_number(text: str, *, low: int) -> int:
    """Read a whole number of at least ``low``."""
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(
            f"must be a whole number of at least {low}, not {text!r}"
        ) from None
    if number < low:
        raise ArgumentTypeError(f"must be at least {low}, not {number}")
    return number


def parameter(text: str) -> tuple[str, float]:
    """Read PARAMETER=NUMBER."""
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise ArgumentTypeError(f"must look like PARAMETER=NUMBER, not {text!r}") from None


def number_within(text: str, low: float, high: float, *, unit: str = "") -> float:
    """Read a number from ``low`` to ``high``."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        accepted = f"a number{unit} from {low:g} to {high:g}"
        raise ArgumentTypeError(f"must be {accepted}, not {text!r}")
    return number


def finite_number(text: str) -> float:
    """Read a number that is neither NaN nor infinite."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"must be a finite number, not {text}")
    return value


def _output_options() -> ArgumentParser:
    options = ArgumentParser(add_help=False)
    options.add_argument("-o", "--output", choices=FORMATS, default="table")
    as_json: dict[str, Any] = {"action": "store_const", "const": "json", "dest": "output"}
    options.add_argument("--json", help="same as -o json", **as_json)
    return options


def _server_options() -> ArgumentParser:
    options = ArgumentParser(add_help=False, parents=[_output_options()])
    options.add_argument("--url", help="address of the server; default: BERTH_URL")
    return options


def _summary(run: Callable[..., Any]) -> str:
    return (run.__doc__ or "").strip().rstrip(".").replace("%", "%%")
