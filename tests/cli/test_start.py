"""How the command starts and ends: what it imports, and what Ctrl-C does."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from controlplane.cli.errors import Exit
from controlplane.cli.main import MODULES, main, parser_for
from controlplane.embedded.instance import PROJECT

CLIENT = ("controlplane.cli.main",)
DEV = ("controlplane.embedded", "berth")
# Runs a module as `python -m` does; then prints the names of all modules it imported.
RUN_AND_LIST = """
import atexit, runpy, sys
atexit.register(lambda: print("imported:", *sys.modules, file=sys.stderr))
module, *sys.argv[1:] = sys.argv[1:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
NOBODY = "http://127.0.0.1:9"
HEAVY = {
    *("celery", "django", "highspy", "numba", "numpy", "plotly", "psycopg", "redis"),
    *("rest_framework", "scipy", "yaml"),
}
JOB = "01920000-0000-7000-8000-000000000000"
VERBS = [
    ["watch", JOB],
    ["submit", "--app", "a", "--best-effort", "--wait", "done"],
    ["profiling", "watch", JOB],
]


def environment(home: Path, url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PROJECT),
        "XDG_CONFIG_HOME": str(home),
        "BERTH_HOME": str(home),
        "BERTH_URL": url,
    }


def imported(entry: tuple[str, ...], arguments: list[str], home: Path) -> set[str]:
    """Return the names of all modules that a call imports."""
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", RUN_AND_LIST, *entry, *arguments],
        env=environment(home, NOBODY),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return set(done.stderr.rpartition("imported:")[2].split())


@pytest.mark.parametrize("entry", [CLIENT, DEV], ids=["berth", "dev"])
@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["fronts", "list"], ["loop", "show"]])
def test_a_call_imports_no_heavy_package(
    entry: tuple[str, ...], arguments: list[str], tmp_path: Path
) -> None:
    names = imported(entry, arguments, tmp_path)
    assert "controlplane.cli.errors" in names
    assert {name.partition(".")[0] for name in names} & HEAVY == set()


def test_a_call_imports_the_module_of_its_verb_only(tmp_path: Path) -> None:
    modules = {f"controlplane.cli.{name}" for name in MODULES}
    assert imported(CLIENT, ["list"], tmp_path) & modules == {"controlplane.cli.jobs"}


def test_every_verb_is_declared_by_its_module() -> None:
    listed = [name for names in MODULES.values() for name in names]
    assert len(listed) == len(set(listed)) > 20
    for name in listed:
        parser = parser_for([name])
        with pytest.raises(SystemExit) as ended:
            parser.parse_args([name, "--help"])
        assert ended.value.code == 0


def test_an_unknown_verb_is_refused_with_all_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["wathc", JOB])
    assert ended.value.code == Exit.USAGE
    refused = capsys.readouterr().err
    assert [name for names in MODULES.values() for name in names if name not in refused] == []


@pytest.mark.parametrize("buffered", ["", "1"])
def test_a_full_disk_and_a_closed_pipe_end_a_call_in_one_line(
    buffered: str, tmp_path: Path
) -> None:
    readable, closed = os.pipe()
    os.close(readable)
    full = os.open("/dev/full", os.O_WRONLY)
    said = []
    for output in (full, closed):
        done = subprocess.run(  # noqa: S603 - our own
            [sys.executable, "-m", *CLIENT, "version"],
            env={**environment(tmp_path, NOBODY), "PYTHONUNBUFFERED": buffered},
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        os.close(output)
        said.append((done.returncode, done.stderr))
    message = "berth: the output cannot be written: No space left on device\n"
    assert said == [(Exit.FAILED, message), (Exit.OK, "")]


class Unchanging(BaseHTTPRequestHandler):
    """A server whose only resource never changes; it says when a client waits for a change."""

    def do_GET(self) -> None:
        if "wait=" in self.path:
            self.server.is_awaited.set()  # type: ignore[attr-defined]  # set by `unchanging`
            self.server.has_ended.wait(60)  # type: ignore[attr-defined]  # set by `unchanging`
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        status = {"state": "running", "reason": None, "progress": 0.5, "attainment": None}
        run = {"id": JOB, "operation": JOB, "state": "running", "progress": 1, "total": 2}
        body = {
            "metadata": {"id": JOB},
            "status": status,
            "position": 1,
            "results": [],
            "message": "",
            **run,
        }
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def unchanging() -> Iterator[tuple[str, threading.Event]]:
    """Run the server; yields its address and the event of a client that waits."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Unchanging)
    is_awaited, has_ended = threading.Event(), threading.Event()
    server.is_awaited, server.has_ended = is_awaited, has_ended  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", is_awaited
    finally:
        has_ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("entry", [CLIENT, DEV], ids=["berth", "dev"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_ctrl_c_ends_a_call_without_a_traceback(
    entry: tuple[str, ...], verb: list[str], tmp_path: Path
) -> None:
    with unchanging() as (url, is_awaited):
        process = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, "-m", *entry, *verb],
            env=environment(tmp_path, url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert is_awaited.wait(60)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group
        _, err = process.communicate(timeout=60)
    assert process.returncode == Exit.INTERRUPTED
    assert "Traceback" not in err
