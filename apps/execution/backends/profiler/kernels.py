"""The inner loops of stressors, in numpy: each call presses one source for about a millisecond.

Sizes follow the caches of this machine. The loops spend most of their time inside numpy, so that
the interpreter presses little else.
"""

import mmap
import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.execution.backends.profiler.machine import Caches

LINE: Final = 64
PAGE: Final = 4096
TLB_PAGES: Final = 1 << 15  # 128 MiB: beyond the second level of any TLB
BLOCK: Final = 1 << 20  # of the disk
FILE_BLOCKS: Final = 64
MESSAGE: Final = 1 << 16
COPY: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Kernel:
    """One stressor's loop.

    Attributes
    ----------
    press : presses once and returns the amount, in `unit`
    unit : of the amount
    set_intensity : called with 0-100 when the intensity changes
    is_timed_by_wall : its duty is a share of wall time, as it mostly waits
    close : gives back what it holds
    """

    press: Callable[[], float]
    unit: str
    set_intensity: Callable[[int], None] = lambda intensity: None
    is_timed_by_wall: bool = False
    close: Callable[[], None] = lambda: None


def make(name: str, caches: Caches, directory: str) -> Kernel:
    """Return the kernel of a stressor.

    Parameters
    ----------
    directory : where the disk is pressed; the file has no name, so it never outlives the process
    """
    if name not in _FACTORIES:
        raise ValueError(f"no kernel is named {name!r}")
    return _FACTORIES[name](caches, directory)


def _matrix() -> Kernel:
    left = np.random.default_rng(1).random((32, 32))
    out = np.empty_like(left)

    def press() -> float:
        for _ in range(100):
            np.matmul(left, left, out=out)
        return 100 * 2 * 32.0**3

    return Kernel(press, "flop")


def _stream(size: int) -> Kernel:
    block = np.ones(size // 8)
    repeats = max(1, (1 << 23) // size)

    def press() -> float:
        for _ in range(repeats):
            block.sum()
        return float(repeats * block.nbytes)

    return Kernel(press, "B")


def _random_lines(size: int) -> Kernel:
    lines = np.ones((size // LINE, LINE // 8))[:, 0]
    return _gather(lines, chunk=1 << 15)


def _pages() -> Kernel:
    memory = mmap.mmap(-1, TLB_PAGES * PAGE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    words = np.frombuffer(memory, dtype=np.float64)
    words[:: PAGE // 8] = 1.0
    # one line per page, each at another offset, so that the lines do not share sets of the caches
    starts = np.arange(TLB_PAGES) * (PAGE // 8) + (np.arange(TLB_PAGES) * 8) % (PAGE // 8)
    return _gather(words, chunk=1 << 13, places=starts)


def _gather(values: Any, *, chunk: int, places: Any = None) -> Kernel:
    places = np.arange(len(values)) if places is None else places
    order = np.random.default_rng(2).permutation(places)
    chunk = min(chunk, len(order))
    out = np.empty(chunk)
    parts = [order[at : at + chunk] for at in range(0, len(order) - chunk + 1, chunk)]
    position = 0

    def press() -> float:
        nonlocal position
        np.take(values, parts[position], out=out, mode="clip")
        position = (position + 1) % len(parts)
        return float(chunk)

    return Kernel(press, "reads")


def _copy(size: int) -> Kernel:
    source, target = np.ones(size // 8), np.full(size // 8, 2.0)  # every page is there
    step = COPY // 8
    position = 0

    def press() -> float:
        nonlocal position
        np.copyto(target[position : position + step], source[position : position + step])
        position = (position + step) % len(source)
        return 2.0 * COPY

    return Kernel(press, "B")


def hold(size: int) -> Kernel:
    """Return the kernel that holds a share of so many bytes."""
    memory = mmap.mmap(-1, size)
    words = np.frombuffer(memory, dtype=np.uint8)[::PAGE]
    held, position, step = 0, 0, 256

    def set_intensity(intensity: int) -> None:
        nonlocal held, position
        held, position = len(words) * intensity // 100, 0
        memory.madvise(mmap.MADV_DONTNEED)
        words[:held] = 1

    def press() -> float:
        nonlocal position
        words[position : min(held, position + step)] += 1
        position = (position + step) % max(1, held)
        return float(step * PAGE)

    return Kernel(press, "B", set_intensity)


def _disk(directory: str) -> Kernel:
    file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - as long as the process
    block = np.random.default_rng(3).bytes(BLOCK)
    position = 0

    def press() -> float:
        nonlocal position
        os.pwrite(file.fileno(), block, position * BLOCK)
        os.fdatasync(file.fileno())
        position = (position + 1) % FILE_BLOCKS
        return float(BLOCK)

    return Kernel(press, "B", is_timed_by_wall=True, close=file.close)


def _loopback() -> Kernel:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    sender.setblocking(False)
    receiver.setblocking(False)
    data, buffer = bytes(MESSAGE), bytearray(MESSAGE)

    def press() -> float:
        sent = 0
        for _ in range(8):
            with suppress(BlockingIOError):  # the buffer is full: read first
                sent += sender.send(data)
            with suppress(BlockingIOError):  # it has not arrived yet
                receiver.recv_into(buffer)
        return float(sent)

    def close() -> None:
        sender.close()
        receiver.close()

    return Kernel(press, "B", close=close)


def _available_bytes() -> int:
    with open("/proc/meminfo") as stream:
        for line in stream:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    raise OSError("/proc/meminfo does not say how much memory is available")


_FACTORIES: Final[Mapping[str, Callable[[Caches, str], Kernel]]] = {
    "core": lambda caches, directory: _matrix(),
    "shared_core": lambda caches, directory: _matrix(),
    "other_core": lambda caches, directory: _matrix(),
    "l1d": lambda caches, directory: _stream(caches.l1d * 3 // 4),
    "l2": lambda caches, directory: _stream(caches.l2 * 3 // 4),
    "tlb": lambda caches, directory: _pages(),
    "llc_capacity": lambda caches, directory: _random_lines(caches.llc),
    "llc_bandwidth": lambda caches, directory: _stream(max(2 * caches.l2, caches.llc * 3 // 8)),
    "memory_bandwidth": lambda caches, directory: _copy(
        min(1 << 28, max(1 << 26, 2 * caches.llc))
    ),
    "memory_capacity": lambda caches, directory: hold(_available_bytes() // 2),
    "storage_bandwidth": lambda caches, directory: _disk(directory),
    "network_bandwidth": lambda caches, directory: _loopback(),
}
