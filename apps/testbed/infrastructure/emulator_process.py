"""A live run with its nodes in a process of their own."""

import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apps
from apps.execution.infrastructure.addresses import allow_connections, parse_address
from apps.testbed.core.reservation.model import RunResult
from apps.testbed.infrastructure.live_nodes import LiveCase, LiveRun, LiveRunError, node_rows

ROOT: Final = Path(apps.__path__[0]).parent
TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class LiveOutcome:
    """A live run and what it cost.

    Attributes
    ----------
    wall_s : of the replay
    node_share, scheduler_share : processor time of the two processes during the replay, as shares
        of one core
    totals : what the node process counted
    """

    result: RunResult
    wall_s: float
    node_share: float
    scheduler_share: float
    totals: dict[str, Any]


async def run_with_emulator(
    case: LiveCase, *, address: str | None = None, seed: int = 1, tick_s: float = 0.005
) -> LiveOutcome:
    """Start the node process, run the case against it and stop it.

    Parameters
    ----------
    address : `unix:PATH` or `tcp:HOST:PORT` (port 0: any); by default a socket in a new folder

    Raises
    ------
    LiveRunError : the node process ends early, or nodes do not connect.
    DescriptorsError : too many connections for the limit of open files.
    """
    allow_connections(len(case.machines))
    with tempfile.TemporaryDirectory(prefix="berth-nodes-") as folder:
        live = LiveRun(case, report=_complain)
        at = await live.server.listen(parse_address(address or f"unix:{folder}/nodes.sock"))
        nodes = Path(folder) / "nodes.jsonl"
        nodes.write_text("".join(f"{json.dumps(row)}\n" for row in node_rows(case.machines)))
        process = await _start(at, nodes, seed, tick_s)
        try:
            return await _measured(live, process)
        finally:
            await _stop(process)
            await live.server.close()


async def _start(
    address: str, nodes: Path, seed: int, tick_s: float
) -> asyncio.subprocess.Process:
    options = ("--connect", address, "--nodes", nodes, "--seed", seed, "--tick", tick_s)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "apps.execution.backends.emulated_nodes",
        *map(str, options),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def _measured(live: LiveRun, process: asyncio.subprocess.Process) -> LiveOutcome:
    assert process.stdout is not None  # noqa: S101 - a pipe, for the types
    preparing = asyncio.ensure_future(live.prepare())
    ending = asyncio.ensure_future(process.wait())
    await asyncio.wait({preparing, ending}, return_when=asyncio.FIRST_COMPLETED)
    if not preparing.done():
        preparing.cancel()
        raise LiveRunError(f"the node process ended with exit code {process.returncode}")
    await preparing
    before_s, own_s, began = _cpu_s(process.pid), time.process_time(), time.monotonic()
    result = await live.replay()
    wall_s = max(1e-9, time.monotonic() - began)
    node_share = (_cpu_s(process.pid) - before_s) / wall_s
    own_share = (time.process_time() - own_s) / wall_s
    process.terminate()
    lines = (await process.stdout.read()).splitlines()
    await ending
    return LiveOutcome(result, wall_s, node_share, own_share, json.loads(lines[-1]))


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Kill the process unless it has ended."""
    if process.returncode is None:
        process.kill()
        await process.wait()


def _cpu_s(pid: int) -> float:
    """Processor time of a process, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _complain(text: str) -> None:
    sys.stderr.write(f"{text}\n")
