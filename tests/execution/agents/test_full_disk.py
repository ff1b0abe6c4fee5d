"""A disk that is full: output is dropped, and no job and no agent ends by it."""

import errno
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from apps.execution.backends.agent.accounts import Accounts
from apps.execution.backends.agent.segments import Segments
from apps.execution.backends.agent.tasks import Tasks
from apps.execution.core.port import CommandOrder
from tests.execution.agents.conftest import eventually

ROOM = 1 << 18


@dataclass
class Disk:
    """A small file system.

    Attributes
    ----------
    path : where it is mounted
    """

    path: Path

    def fill(self) -> None:
        """Use all of its room."""
        with (self.path / "filler").open("wb", buffering=0) as stream, suppress(OSError):
            while stream.write(b"x" * 4096):
                pass
        assert os.statvfs(self.path).f_bavail == 0

    def empty(self) -> None:
        """Give the room back."""
        (self.path / "filler").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of `ROOM` bytes."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM},mode=711", "tmpfs", str(path)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)  # noqa: S603
    if made.returncode:
        pytest.skip(f"no right to mount here: {made.stderr.strip()}")
    yield Disk(path)
    subprocess.run(["umount", "--lazy", str(path)], check=True)  # noqa: S603, S607


def test_short_counts_lose_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]))
    Segments(str(tmp_path), "stdout").write(b"0123456789")
    assert (tmp_path / "stdout.0").read_bytes() == b"0123456789"


def test_output_that_the_disk_does_not_take_is_dropped_and_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write: Callable[[int, bytes], int] = os.write
    is_full = False

    def written(file: int, data: bytes) -> int:
        if is_full:
            raise OSError(errno.ENOSPC, "no space")
        return write(file, data)

    monkeypatch.setattr(os, "write", written)
    segments = Segments(str(tmp_path), "stdout")
    segments.write(b"before")
    is_full = True
    segments.write(b"dropped")
    segments.write(b"too")
    is_full = False
    segments.write(b"after")
    assert (tmp_path / "stdout.0").read_text() == (
        "before\nberth: 10 bytes of output were dropped: No space left on device\nafter"
    )


@pytest.mark.agent
def test_a_task_goes_on_while_the_disk_is_full_and_its_end_is_written_afterwards(
    disk: Disk,
) -> None:
    (disk.path / "lease").write_text(str(time.monotonic() + 600.0))
    tasks = Tasks(disk.path, (0,), server="box-1", accounts=Accounts())
    tasks.begin()
    go = disk.path.parent / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.05; done; seq 100000; exit 3"
    tasks.start(
        CommandOrder(
            launch=1, job="j", name="n", is_running=False, stop=False, cores=(0,),
            memory_bytes=2**26, command=("sh", "-c", script),
        )
    )  # fmt: skip
    directory = disk.path / "tasks/1"
    eventually((directory / "started.json").exists)
    disk.fill()
    go.touch()
    started = json.loads((directory / "started.json").read_text())
    eventually(lambda: not Path(f"/proc/{started['pid']}").exists(), "the command ends")
    time.sleep(0.2)
    assert tasks.get(1).has_supervisor()
    disk.empty()
    eventually((directory / "exit.json").exists)
    assert json.loads((directory / "exit.json").read_text())["code"] == 3
    tasks.end()
