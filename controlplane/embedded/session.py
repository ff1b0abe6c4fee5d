"""One run of Berth: made ready, opened, watched and closed."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.embedded import fleet
from controlplane.embedded.instance import (
    MEBIBYTE,
    PROJECT,
    Instance,
    migrations_digest,
    require_space,
)
from controlplane.embedded.options import (
    DEFAULT_POLICY,
    DEFAULT_SERVERS,
    DEFAULT_SPEED,
    Options,
)
from controlplane.embedded.processes import (
    Child,
    LauncherError,
    last_line,
    start,
    stop_all,
    tethered,
    wait_all,
)
from controlplane.embedded.progress import Progress
from controlplane.embedded.servers import Servers

FIRST_PAGE_TIMEOUT_S = 60.0
STOP_PATIENCE_S = 1.6  # then harder, and then the kill: nothing is lost by either
WATCH_INTERVAL_S = 0.2
DISK_INTERVAL_S = 5.0
LEAST_SPACE_BYTES = 64 * MEBIBYTE
REPLAY = "replay"
REPLAY_DONE = (0, 3)  # 3: to its end, but the server refused some jobs


@dataclass(slots=True)
class Session:
    """What runs between the start of the servers and their stop."""

    options: Options
    instance: Instance
    servers: Servers
    environment: dict[str, str]
    progress: Progress
    children: list[Child] = field(default_factory=list)
    is_clock_running: bool = False
    replay_read_bytes: int = 0

    @property
    def url(self) -> str:
        """Address of pages and REST, without a slash at its end."""
        return f"http://127.0.0.1:{self.options.port}"

    def prepare(self) -> str | None:
        """Bring schema, administrator and cluster up; return the one-time password, if new."""
        state = self._state()
        if state.get("migrations") != (digest := migrations_digest()):
            self._manage("Preparing the database", "migrate", "--no-input")
            state["migrations"] = digest
            self.instance.remember("state", state)
        password = self._create_administrator()
        wanted = self.options.servers or state.get("servers") or DEFAULT_SERVERS
        if not self.options.is_empty and state.get("servers") != wanted:
            label = f"Making a cluster of {wanted:,} servers"
            self._manage(label, "seed_demo", "--servers", str(wanted))
            state["servers"] = wanted
        state["speed"] = self.options.speed or state.get("speed") or DEFAULT_SPEED
        state["policy"] = self.options.policy or state.get("policy") or DEFAULT_POLICY
        self.instance.remember("state", state)
        self.environment["BERTH_POLICY"] = state["policy"]
        return password

    def open(self) -> None:
        """Start everything; the pages answer when this returns."""
        self._launch(fleet.web(self.options.port))
        self.is_clock_running = True
        speed = str(self.instance.recall("state")["speed"])
        # the lock of the instance is ours, so nothing has run since the last one ended
        clock = ("start_clock", "--was-still", "--speed", speed)
        self._manage("Starting the cluster's clock", *clock)
        self._await_first_page()
        agents = int(self.environment.get("BERTH_AGENTS", "1"))
        schedule = Path(self.environment["BERTH_SOCKET_DIR"]) / "beat"
        for member in (
            fleet.stream(self.options.port + 1),
            fleet.command("emulator", "run_emulator"),
            fleet.worker("agents", agents),
            fleet.worker("default", 2),  # a retraining must not keep new profiles waiting
            fleet.worker("placement", 3),  # nor a front a preview, or a check
            fleet.beat(schedule),
        ):
            self._launch(member)
        if self.options.has_replay:
            trace = ("--trace", str(self.options.trace)) if self.options.trace else ()
            self._launch(fleet.command(REPLAY, "run_replay", *trace))

    def watch(self) -> None:
        """Stay until a signal comes.

        Raises
        ------
        LauncherError : a child ended that should not have, or the disk is full.
        """
        checked_s = 0.0
        while True:
            for child in (*self.servers.children, *self.children):
                self._check(child)
            if time.monotonic() - checked_s > DISK_INTERVAL_S:
                require_space(self.instance.home, LEAST_SPACE_BYTES)
                checked_s = time.monotonic()
            self._follow_replay()
            time.sleep(WATCH_INTERVAL_S)

    def close(self) -> None:
        """Stop the cluster's clock and all children; the servers are stopped by their owner."""
        clock: list[Child] = []
        if self.is_clock_running:
            clock = [self._manage_in_background("stop_clock")]
        stop_all(self.children, patience_s=STOP_PATIENCE_S)
        wait_all(clock, timeout_s=1.0)
        stop_all(clock, patience_s=0.1)

    def _state(self) -> dict[str, Any]:
        """Return what the instance remembers of this database; nothing when it is another one."""
        state = self.instance.recall("state")
        database = self.environment.get("BERTH_DATABASE", "")
        return state if state.get("database") == database else {"database": database}

    def _create_administrator(self) -> str | None:
        """Make sure that we hold a token; return the password when the account is new."""
        token, password = self.instance.home / "token", None
        if not token.exists():
            label, options = "Creating the administrator", ("--print-json", "--token-file")
            answer = self._manage(label, "create_admin", *options, str(token))
            password = json.loads(answer.splitlines()[-1])["password"]
            # At once: should the rest of the start fail, nobody could ever learn it.
            self.progress.say(f"Log in as admin with the one-time password {password}")
        self.environment["BERTH_TOKEN"] = token.read_text().strip()
        return password

    def _launch(self, member: fleet.Member) -> None:
        child = fleet.launch(member, instance=self.instance, environment=self.environment)
        self.children.append(child)

    def _manage(self, label: str, *arguments: str) -> str:
        """Run one management command to its end and return what it printed."""
        self.progress.begin(label)
        log = self.instance.fresh_log(arguments[0])
        with log.open("ab") as errors:
            process = subprocess.Popen(  # noqa: S603  (our own command)
                tethered([sys.executable, str(PROJECT / "manage.py"), *arguments]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self.environment,
                start_new_session=True,
            )
        child = Child(name=arguments[0], process=process, log=log)
        try:
            printed = self._read_output(process, is_secret="--print-json" in arguments)
        finally:
            stop_all([child], patience_s=1.0)
        if child.exit_code != 0:
            raise LauncherError(f"{label} failed: {last_line(log) or printed} (log: {log}).")
        self.progress.end()
        return printed

    def _read_output(self, process: "subprocess.Popen[bytes]", *, is_secret: bool) -> str:
        assert process.stdout is not None  # noqa: S101  (we asked for a pipe)
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line.decode(errors="replace"))
            if not is_secret:
                self.progress.update(lines[-1].strip())
        process.wait()
        return "".join(lines)

    def _manage_in_background(self, name: str) -> Child:
        command = tethered([sys.executable, str(PROJECT / "manage.py"), name])
        log = self.instance.fresh_log(name)
        return start(name, command, log=log, environment=self.environment)

    def _await_first_page(self) -> None:
        deadline = time.monotonic() + FIRST_PAGE_TIMEOUT_S
        while not _answers(self.url + "/healthz"):
            for child in (*self.servers.children, *self.children):
                self._check(child)
            if time.monotonic() > deadline:
                raise LauncherError(f"No page within {FIRST_PAGE_TIMEOUT_S:.0f} s: see the logs.")
            time.sleep(0.05)

    def _check(self, child: Child) -> None:
        code = child.exit_code
        if code is None:
            return
        require_space(self.instance.home, LEAST_SPACE_BYTES)  # the likelier reason, when it is one
        if child.name != REPLAY:
            raise LauncherError(
                f"Berth stopped because {child.describe_end()} (log: {child.log}); "
                "its data is kept, ./dev run goes on from there."
            )
        if code not in REPLAY_DONE:
            raise LauncherError(last_line(child.log) or child.describe_end())
        self.children.remove(child)
        self.progress.say(f"The replay has ended: {last_line(child.log)}")

    def _follow_replay(self) -> None:
        replay = next((child for child in self.children if child.name == REPLAY), None)
        if replay is None or replay.log.stat().st_size == self.replay_read_bytes:
            return
        self.replay_read_bytes = replay.log.stat().st_size
        self.progress.label = "Replay"
        self.progress.update(last_line(replay.log))


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5.0) as answer:  # noqa: S310  (http, this machine)
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False
