"""Options of `./dev run`."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from controlplane.settings.values import choice, whole

DEFAULT_SERVERS = 600
DEFAULT_SPEED = 60.0
DEFAULT_POLICY = "expected"
DEFAULT_WORLD = "measured"
WORLDS = (DEFAULT_WORLD, "paper")
EMULATED, AGENT = "emulated", "agent"
DEFAULT_PORT = 8000


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a start; None = the value of the previous run, or the default.

    Environment variables give the policy and the world where no option does, and the number of
    scheduling agents.
    """

    trace: Path | None
    servers: int | None
    speed: float | None
    policy: str | None
    world: str | None
    backend: str | None
    port: int
    is_fresh: bool
    is_empty: bool
    has_replay: bool
    agents: int


def parse(arguments: Sequence[str]) -> Options:
    """Parse the command line of `./dev run`, and the environment variables that it reads."""
    parser = argparse.ArgumentParser(
        prog="./dev run", description="Start Berth on this machine; Ctrl-C stops it."
    )
    add = parser.add_argument
    add("--trace", type=Path, metavar="FILE", help="replay this trace instead of a generated day")
    add(
        "--servers",
        type=_positive_int,
        help=f"number of servers of the demo cluster ({DEFAULT_SERVERS})",
    )
    add(
        "--speed",
        type=_speed,
        help=f"cluster seconds per wall second ({DEFAULT_SPEED:.0f})",
    )
    add(
        "--policy",
        default=os.environ.get("BERTH_POLICY"),
        help=f"placement policy ({DEFAULT_POLICY})",
    )
    add("--world", choices=WORLDS, help=f"what the emulated cluster resembles ({DEFAULT_WORLD})")
    add(
        "--backend",
        choices=(EMULATED, AGENT),
        help="emulated servers, or three agents that run real programs on this machine (emulated)",
    )
    add(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        help=f"port of the dashboard and API ({DEFAULT_PORT})",
    )
    add("--fresh", action="store_true", help="delete the data of earlier runs first")
    add("--empty", action="store_true", help="start without demo cluster and replay")
    add("--no-replay", action="store_true", help="start with the demo cluster, but without replay")
    given = parser.parse_args(arguments)
    try:
        world, agents = _environment_world(), whole("BERTH_AGENTS", 1, low=1)
    except ImproperlyConfigured as error:
        parser.error(str(error))
    return Options(
        trace=given.trace,
        servers=given.servers,
        speed=given.speed,
        policy=given.policy,
        world=given.world or world,
        backend=given.backend,
        port=given.port,
        is_fresh=given.fresh,
        is_empty=given.empty,
        has_replay=not (given.empty or given.no_replay),
        agents=agents,
    )


def _environment_world() -> str | None:
    return choice("BERTH_WORLD", DEFAULT_WORLD, WORLDS) if "BERTH_WORLD" in os.environ else None


def _positive_int(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 100_000:
        accepted = "a number above 0 and at most 100000"
        raise argparse.ArgumentTypeError(f"must be {accepted}, not {text!r}")
    return value


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65534:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 65534, not {text!r}")
    return int(text)
