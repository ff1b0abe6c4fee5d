"""The sandbox of a profiled command: what a copy can see, and what it leaves behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.execution.backends.agent.command import preload
from apps.execution.backends.profiler import mounts, sandbox
from apps.execution.backends.profiler.accounts import Account
from apps.execution.backends.profiler.program import Launcher
from apps.execution.backends.profiler.sandbox import CopyOnWrite, Place
from apps.execution.backends.profiler.scheduling import Priority
from controlplane.embedded.instance import PROJECT

PRIORITY = Priority(tuple(os.sched_getaffinity(0)), is_realtime=False)
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to namespaces")


@contextmanager
def copies(directory: Path) -> Iterator[Place]:
    """Open the sandbox of a working directory below this one."""
    (directory / "work").mkdir()
    with sandbox.opened(str(directory / "work"), directory / "progress") as place:
        yield place


def run(place: Place, directory: Path, script: str) -> int:
    """Run a script of a shell at a place; return its exit code."""
    command = ["sh", "-ec", script]
    return Launcher(command, PRIORITY, place, directory / "progress").start().wait()


@needs_root
def test_every_run_begins_with_the_files_of_the_machine(tmp_path: Path) -> None:
    with copies(tmp_path) as place:
        (tmp_path / "work" / "input").write_text("12")
        script = f"test $(cat input) = 12; test ! -e new; echo 34 | tee input new {tmp_path}/far"
        assert [run(place, tmp_path, script) for _ in range(3)] == [0, 0, 0]
        assert (tmp_path / "work" / "input").read_text() == "12"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["input", "progress", "work"]


@needs_root
def test_a_copy_sees_neither_processes_nor_the_network(tmp_path: Path) -> None:
    seen = 'echo $(ls -d /proc/[0-9]* | wc -l) $(grep -c : /proc/net/dev) > "$BERTH_PROGRESS"'
    with copies(tmp_path) as place:
        assert run(place, tmp_path, seen) == 0
    processes, interfaces = (tmp_path / "progress").read_text().split()
    assert int(processes) <= 5  # the first process, and those of the script
    assert int(interfaces) < len(list(Path("/sys/class/net").iterdir())) or interfaces == "1"


@needs_root
def test_what_a_copy_leaves_running_ends_with_the_sandbox(tmp_path: Path) -> None:
    def is_running() -> bool:
        found = subprocess.run(  # noqa: S603 - of this test
            ["pgrep", "-f", f"^sleep 98765.{tmp_path.stat().st_ino}$"],  # noqa: S607
            stdout=subprocess.DEVNULL,
            check=False,
        )
        return found.returncode == 0

    with copies(tmp_path) as place:
        assert run(place, tmp_path, f"setsid sleep 98765.{tmp_path.stat().st_ino} &") == 0
        assert is_running()
    assert not is_running()


@needs_root
@pytest.mark.parametrize("has_right", [True, False])
def test_the_command_runs_as_its_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_right: bool
) -> None:
    if not has_right:
        monkeypatch.setattr(sandbox, "file_systems", lambda: ["/no-such-file-system"])
    account = Account.of("nobody")
    assert account is not None
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o011)
    script = 'touch mine; echo $(id -u) $(id -G) > "$BERTH_PROGRESS"'
    (tmp_path / "work").mkdir()
    os.chown(tmp_path / "work", account.user, account.group)
    with sandbox.opened(str(tmp_path / "work"), tmp_path / "progress", account=account) as place:
        assert place.sandbox == ("copy-on-write" if has_right else "empty directory")
        launcher = Launcher(
            ["sh", "-ec", script],
            PRIORITY,
            place,
            tmp_path / "progress",
            environment={"PATH": os.environ["PATH"]},
            account=account,
        )
        assert launcher.start().wait() == 0
    found = (tmp_path / "progress").read_text().split()
    assert found == [str(account.user), *map(str, account.groups)]


@needs_root
def test_an_error_is_known_before_the_first_run(tmp_path: Path) -> None:
    (tmp_path / "layers").mkdir()
    (tmp_path / "progress").touch()
    with pytest.raises(sandbox.NoSandboxError, match="No such file or directory: '/missing'"):
        CopyOnWrite(tmp_path / "layers", "/missing", tmp_path / "progress")


def _lose_right() -> None:
    if os.geteuid() == 0:
        preload().prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0)


def test_an_account_without_the_right_gets_an_empty_directory(tmp_path: Path) -> None:
    source = f"""
import os
from pathlib import Path
from apps.execution.backends.profiler import sandbox
from apps.execution.backends.profiler.program import Launcher
from apps.execution.backends.profiler.scheduling import Priority
folder = Path({str(tmp_path)!r})
with sandbox.opened(str(folder), folder / "progress") as place:
    priority = Priority(tuple(os.sched_getaffinity(0)), is_realtime=False)
    launcher = Launcher(["sh", "-c", "ls -A; touch here; test ! -e kept"], priority, place,
        folder / "progress")
    print([launcher.start().wait() for _ in range(2)], place.sandbox, place.note)
print(sorted(os.listdir(folder)))
"""
    (tmp_path / "kept").touch()
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", source],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=_lose_right,
    )
    first, last = done.stdout.splitlines()
    assert first.startswith(f"[0, 0] empty directory {sandbox.NOT_ENFORCED}: ")
    assert first.endswith("unshare: Operation not permitted")
    assert last == "['kept', 'progress']"


def test_file_systems_are_read_parents_first_and_without_those_of_the_kernel() -> None:
    text = r"""
22 27 0:21 / /proc rw - proc proc rw
24 27 0:6 / /dev rw - devtmpfs devtmpfs rw
25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw
43 27 254:2 / /home/a\040b/deep rw shared:1 - ext4 /dev/vdc rw
42 27 254:1 / /home rw shared:1 master:2 - ext4 /dev/vdb rw
27 1 254:0 / / rw - ext4 /dev/vda rw
44 27 0:4 net:[1] /run/netns/one rw - nsfs nsfs rw
45 27 0:9 / /device rw - tmpfs tmpfs rw
""".strip()
    assert mounts.mount_points(text) == ["/", "/device", "/home", "/home/a b/deep"]
