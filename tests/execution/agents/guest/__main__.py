"""Run the limits of tasks under control groups of version 2, in an emulated machine (QEMU, TCG).

    python -m tests.execution.agents.guest --qemu qemu-system-x86_64 --kernel vmlinuz

The kernel is one with control groups and an initial file system, such as that of Debian's package
linux-image-cloud-amd64. The initial file system is this Python, its library, the modules of the
agent and `checks.py`, which is process 1. The command prints what the checks print; 0 = all hold.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from controlplane.cli.agent_file import ROOT, sources

TIMEOUT_S: Final = 600.0
DONE: Final = "all checks of the guest hold"
LEFT_OUT: Final = frozenset(
    {"test", "idlelib", "ensurepip", "site-packages", "lib2to3", "tkinter", "turtledemo",
     "__pycache__", "unittest", "distutils", "pydoc_data", "asyncio", "xml", "sqlite3", "curses"}
)  # fmt: skip
INIT: Final = (
    "#!{python} -IS\nimport sys\nsys.path.insert(0, '/berth')\nimport checks\nchecks.main()\n"
)


def main() -> int:
    """Boot the guest and return 0 if all checks hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--qemu", default="qemu-system-x86_64")
    parser.add_argument("--kernel", type=Path, required=True)
    parser.add_argument("--option", action="append", default=[], help="more options of QEMU")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        files.write_bytes(gzip.compress(archive(dict(guest_files())), compresslevel=1))
        command = [
            *(
                options.qemu,
                "-accel",
                "tcg",
                "-cpu",
                "max",
                "-smp",
                "2",
                "-m",
                "1024",
                "-nographic",
            ),
            *("-nic", "none", "-no-reboot", "-kernel", str(options.kernel), "-initrd", str(files)),
            *(
                "-append",
                "console=ttyS0 quiet random.trust_cpu=on panic=-1 rdinit=/init",
                *options.option,
            ),
        ]
        done = subprocess.run(  # noqa: S603 - our own program
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    sys.stdout.write(done.stdout + done.stderr)
    return 0 if DONE in done.stdout else 1


def guest_files() -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file of the guest."""
    python = Path(sys.executable).resolve()
    library = Path(os.__file__).parent
    binaries = [python, *library.glob("lib-dynload/*.so")]
    for path in library.rglob("*"):
        parts = path.relative_to(library).parts
        if path.is_file() and not LEFT_OUT & set(parts) and not parts[0].startswith("config-"):
            yield str(path), path.read_bytes()
    for path in {*binaries, *(found for binary in binaries for found in _libraries(binary))}:
        yield str(path), path.read_bytes()
    for path in sources():
        yield f"/berth/{path.relative_to(ROOT)}", path.read_bytes()
    yield "/berth/checks.py", Path(__file__).with_name("checks.py").read_bytes()
    yield "/etc/passwd", b"root:x:0:0::/:/bin/sh\nberth-jobs:x:1000:1000::/:/bin/sh\n"
    yield "/etc/group", b"root:x:0:\nberth-jobs:x:1000:\n"
    yield "/init", INIT.format(python=python).encode()


def _libraries(binary: Path) -> Iterator[Path]:
    """Yield the shared libraries of a binary, at the paths where it looks for them."""
    done = subprocess.run(  # noqa: S603 - of this machine
        ["ldd", str(binary)],  # noqa: S607 - of the PATH
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    for line in done.stdout.splitlines():
        for word in line.split():
            if word.startswith("/"):
                yield Path(word)


def archive(files: dict[str, bytes]) -> bytes:
    """Return an initial file system (cpio, "newc")."""
    folders = {str(parent) for path in files for parent in Path(path).parents} | {
        "/proc", "/sys", "/dev", "/tmp",  # noqa: S108 - of the guest
    }  # fmt: skip
    parts = [_entry(path, b"", 0o040755) for path in sorted(folders) if path != "/"]
    parts += [_entry(path, data, 0o100755) for path, data in sorted(files.items())]
    parts.append(_entry("/TRAILER!!!", b"", 0))
    return b"".join(parts)


def _entry(path: str, data: bytes, mode: int) -> bytes:
    name = path.lstrip("/").encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    head += bytes(-len(head) % 4)
    return head + data + bytes(-len(data) % 4)


if __name__ == "__main__":
    sys.exit(main())
