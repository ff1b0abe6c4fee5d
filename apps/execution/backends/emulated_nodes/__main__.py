"""Emulate nodes: `python -m apps.execution.backends.emulated_nodes --connect ADDRESS --count N`.

Writes a line of JSON when all nodes have registered, and one with all totals when it is stopped by
SIGTERM or SIGINT.
"""

import argparse
import asyncio
import gc
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from apps.common.core.errors import ControlPlaneError
from apps.execution.backends.emulated_nodes.fleet import Connect, Fleet
from apps.execution.core.nodes.agent import Capacity
from apps.execution.infrastructure.addresses import allow_connections, parse_address


class NodesFileError(ControlPlaneError):
    """A file of nodes that cannot be read; names the line."""


def main() -> int:
    """Emulate nodes until a signal comes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--connect", required=True, help="unix:PATH or tcp:HOST:PORT")
    parser.add_argument("--nodes", type=Path, help="a line of JSON for each node: node, cpu ...")
    parser.add_argument("--count", type=int, default=0, help="number of equal nodes instead")
    parser.add_argument("--cpu", type=int, default=1_000_000)
    parser.add_argument("--memory", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tick", type=float, default=0.005, help="seconds a timer may be late")
    options = parser.parse_args()
    try:
        asyncio.run(_emulate(options))
    except (ControlPlaneError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def read_nodes(path: Path) -> list[tuple[str, Capacity]]:
    """Read nodes from lines of JSON with `node`, `cpu`, `memory` and perhaps `attributes`.

    Raises
    ------
    NodesFileError : a line is malformed.
    """
    nodes = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                size = Capacity(
                    int(row["cpu"]), int(row["memory"]), tuple(row.get("attributes", ()))
                )
                nodes.append((str(row["node"]), size))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise NodesFileError(
                    f"{path}, line {number}: expected an object with node, cpu and memory"
                ) from error
    return nodes


async def _emulate(options: argparse.Namespace) -> None:
    capacities = _capacities(options)
    allow_connections(len(capacities))
    rng = np.random.default_rng(options.seed)
    fleet = Fleet(
        capacities, _connector(options.connect), rng, tick_s=options.tick, report=_complain
    )
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    starting = asyncio.ensure_future(fleet.start())
    stopping = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        gc.collect()
        gc.freeze()  # the nodes stay: later collections need not look at them
        _say({"registered": len(capacities), "cpu_s": time.process_time()})
    await stopping
    starting.cancel()
    fleet.close()
    _say({**fleet.summary(), "cpu_s": time.process_time()})


def _capacities(options: argparse.Namespace) -> list[tuple[str, Capacity]]:
    if options.nodes is not None:
        return read_nodes(options.nodes)
    size = Capacity(options.cpu, options.memory)
    return [(f"n{number:05d}", size) for number in range(options.count)]


def _connector(text: str) -> Connect:
    address = parse_address(text)
    loop = asyncio.get_running_loop()
    if isinstance(address, str):
        return lambda factory: loop.create_unix_connection(factory, address)
    host, port = address
    return lambda factory: loop.create_connection(factory, host, port)


def _say(content: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(content)}\n")
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
