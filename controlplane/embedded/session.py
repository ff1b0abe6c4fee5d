"""A run of Berth: prepare, start, monitor and stop its processes."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.embedded import agents, fleet
from controlplane.embedded.instance import (
    MEBIBYTE,
    PROJECT,
    InstanceDirectory,
    kernels_digest,
    migrations_digest,
    require_space,
)
from controlplane.embedded.options import (
    AGENT,
    DEFAULT_POLICY,
    DEFAULT_SERVERS,
    DEFAULT_SPEED,
    DEFAULT_WORLD,
    EMULATED,
    Options,
)
from controlplane.embedded.processes import (
    Child,
    LauncherError,
    bound_to_parent,
    last_line,
    start,
    stop_all,
    wait_all,
)
from controlplane.embedded.progress import Progress
from controlplane.embedded.servers import Servers
from controlplane.embedded.supervisor import Supervisor

FIRST_PAGE_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 1.6  # then the next signal, then SIGKILL; neither loses data
WATCH_INTERVAL_S = 0.2
DISK_INTERVAL_S = 5.0
MIN_FREE_BYTES = 64 * MEBIBYTE
REPLAY = "replay"
REPLAY_PROJECT = "default"  # of the administrator whose token the replay uses
REPLAY_DONE = (0, 3)  # 3: complete, but the server refused some jobs
BEHIND, LAST = 5, 10  # niceness of work that waits while jobs are placed on a busy machine
REAL_SPEED = 1.0  # real programs run in wall time


@dataclass(slots=True)
class Session:
    """The processes of a run, except the database and broker."""

    options: Options
    instance: InstanceDirectory
    servers: Servers
    environment: dict[str, str]
    progress: Progress
    is_clock_running: bool = False
    backend: str = EMULATED
    replay: Child | None = None
    replay_read_bytes: int = 0
    supervisor: Supervisor = field(init=False)
    broker: Supervisor = field(init=False)  # stops after the processes that use it

    def __post_init__(self) -> None:
        """Stop the instance instead of restarting a process if the disk is full."""

        def on_end(sentence: str) -> None:
            require_space(self.instance.home, MIN_FREE_BYTES)
            self.progress.write_line(sentence)

        self.supervisor, self.broker = Supervisor(on_end), Supervisor(on_end)

    @property
    def children(self) -> list[Child]:
        """The processes that this session has started."""
        replay = [] if self.replay is None else [self.replay]
        return [*self.supervisor.children, *replay]

    @property
    def url(self) -> str:
        """Address of the dashboard and API, without a trailing slash."""
        return f"http://127.0.0.1:{self.options.port}"

    def prepare(self) -> str | None:
        """Prepare schema, administrator and demo cluster; return the one-time password, if new."""
        state = self._state()
        if state.get("migrations") != (digest := migrations_digest()):
            self._manage("Preparing the database", "migrate", "--no-input")
            state["migrations"] = digest
            self.instance.save("state", state)
        password = self._create_administrator()
        self.environment["BERTH_WORLD"] = state["world"] = chosen_world(self.options.world, state)
        self.backend = state["backend"] = chosen_backend(self.options.backend, state)
        wanted = self.options.servers or state.get("servers") or DEFAULT_SERVERS
        is_seeded = not self.options.is_empty and self.backend == EMULATED
        if is_seeded and state.get("servers") != wanted:
            label = f"Creating a cluster of {wanted:,} servers"
            self._manage(label, "seed_demo", "--servers", str(wanted))
            state["servers"] = wanted
        state["speed"] = self.options.speed or state.get("speed") or DEFAULT_SPEED
        if self.backend == AGENT:
            state["speed"] = REAL_SPEED
        state["policy"] = self.options.policy or state.get("policy") or DEFAULT_POLICY
        self.instance.save("state", state)
        self.environment["BERTH_POLICY"] = state["policy"]
        if state.get("kernels") != (digest := kernels_digest()):
            self._compile_kernels()
            state["kernels"] = digest
            self.instance.save("state", state)
        return password

    def open(self) -> None:
        """Start all processes; return when the web process responds."""
        self._supervise(fleet.web(self.options.port))
        self.is_clock_running = True
        speed = str(self.instance.load("state")["speed"])
        # we hold the lock, so nothing has run since the previous run ended
        clock = ("start_clock", "--was-still", "--speed", speed)
        self._manage("Starting the cluster clock", *clock)
        self._await_first_page()
        schedule = Path(self.environment["BERTH_SOCKET_DIR"]) / "beat"
        for service in (
            fleet.stream(self.options.port + 1),
            *([fleet.command("emulator", "run_emulator")] if self.backend == EMULATED else []),
            fleet.worker("agents", self.options.agents),
            # so that retraining does not delay new profiles
            fleet.worker("default", 2, niceness=BEHIND),
            # so that a long sweep does not delay frames
            fleet.worker("upkeep", 2, niceness=LAST),
            # so that a front and a comparison of the Lab do not delay previews and checks
            fleet.worker("placement", 4, niceness=LAST),
            fleet.beat(schedule),
        ):
            self._supervise(service)
        if self.backend == AGENT:
            self._start_agents()
        elif self.options.has_replay:
            trace = ("--trace", str(self.options.trace)) if self.options.trace else ()
            replay = fleet.command(REPLAY, "run_replay", "--project", REPLAY_PROJECT, *trace)
            self.replay = self._launch(replay)
        if self.servers.broker is not None and self.servers.start_broker is not None:
            self.broker.add(self.servers.broker, self.servers.start_broker)

    def _start_agents(self) -> None:
        """Start the agents, and let them run the programs of the demo."""
        home, url = self.instance.home, self.url
        for name in agents.AGENTS:
            agents.enrol(name, home, {**self.environment, "BERTH_URL": url})
            self._supervise(agents.agent(name, home, url), agents.environment_of_agents())
        if self.options.has_replay:
            programs = fleet.Service(REPLAY, ("controlplane.embedded.agents",))
            self.replay = self._launch(programs)

    def watch(self) -> None:
        """Monitor the processes until a signal; start those again that end.

        Raises
        ------
        LauncherError : the database ended, or the disk is full.
        """
        checked_s = 0.0
        while True:
            if self.servers.database is not None:
                self._require_running(self.servers.database)
            self.broker.check()
            self.supervisor.check()
            if time.monotonic() - checked_s > DISK_INTERVAL_S:
                require_space(self.instance.home, MIN_FREE_BYTES)
                checked_s = time.monotonic()
            self._follow_replay()
            time.sleep(WATCH_INTERVAL_S)

    def close(self) -> None:
        """Stop the cluster clock and all children, except the database and broker."""
        clock: list[Child] = []
        if self.is_clock_running:
            clock = [self._manage_in_background("stop_clock")]
        stop_all(self.children, timeout_s=STOP_TIMEOUT_S)
        wait_all(clock, timeout_s=1.0)
        stop_all(clock, timeout_s=0.1)

    def _state(self) -> dict[str, Any]:
        """Return the saved state of this database; empty for a different database."""
        state = self.instance.load("state")
        database = self.environment.get("BERTH_DATABASE", "")
        return state if state.get("database") == database else {"database": database}

    def _create_administrator(self) -> str | None:
        """Create the administrator if there is no token; return the new password."""
        token, password = self.instance.home / "token", None
        if not token.exists():
            label, options = "Creating the administrator", ("--print-json", "--token-file")
            answer = self._manage(label, "create_admin", *options, str(token))
            password = json.loads(answer.splitlines()[-1])["password"]
            # Printed immediately, as it would be lost if the start fails later.
            self.progress.write_line(f"Log in as admin with the one-time password {password}")
        self.environment["BERTH_TOKEN"] = token.read_text().strip()
        return password

    def _compile_kernels(self) -> None:
        """Compile the kernels of the workers and the emulator before cluster time runs.

        Compilation takes a minute, which is an hour of cluster time: jobs would miss their targets
        before they are placed.
        """
        self.progress.begin("Compiling kernels, only now and when they change")
        emulation = ["emulation"] if self.backend == EMULATED else []
        compilers = [
            self._manage_in_background("compile_kernels", kernels)
            for kernels in ("scheduling", "classification", *emulation)
        ]
        done = 0
        try:
            while done < len(compilers):
                time.sleep(WATCH_INTERVAL_S)
                for failed in [each for each in compilers if each.exit_code]:
                    self._require_running(failed)
                done = sum(each.exit_code == 0 for each in compilers)
                self.progress.update(f"{done}/{len(compilers)} groups of kernels")
        finally:
            stop_all(compilers, timeout_s=1.0)
        self.progress.end()

    def _launch(
        self, service: fleet.Service, environment: Mapping[str, str] | None = None
    ) -> Child:
        given = self.environment if environment is None else environment
        return fleet.launch(service, instance=self.instance, environment=given)

    def _supervise(
        self, service: fleet.Service, environment: Mapping[str, str] | None = None
    ) -> None:
        self.supervisor.add(
            self._launch(service, environment), lambda: self._launch(service, environment)
        )

    def _manage(self, label: str, *arguments: str) -> str:
        """Run a management command and return its output."""
        self.progress.begin(label)
        log = self.instance.new_log(arguments[0])
        with log.open("ab") as errors:
            process = subprocess.Popen(  # noqa: S603  (fixed command)
                bound_to_parent([sys.executable, str(PROJECT / "manage.py"), *arguments]),
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
            stop_all([child], timeout_s=1.0)
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

    def _manage_in_background(self, *arguments: str) -> Child:
        command = bound_to_parent([sys.executable, str(PROJECT / "manage.py"), *arguments])
        name = "-".join(arguments)
        log = self.instance.new_log(name)
        return start(name, command, log=log, environment=self.environment)

    def _await_first_page(self) -> None:
        deadline = time.monotonic() + FIRST_PAGE_TIMEOUT_S
        while not _responds(self.url + "/healthz"):
            for child in (*self.servers.children, *self.children):
                self._require_running(child)
            if time.monotonic() > deadline:
                raise LauncherError(
                    f"The web process did not respond within {FIRST_PAGE_TIMEOUT_S:.0f} s: "
                    "see the logs."
                )
            time.sleep(0.05)

    def _require_running(self, child: Child) -> None:
        if child.exit_code is None:
            return
        require_space(self.instance.home, MIN_FREE_BYTES)  # the likely cause if the disk is full
        raise LauncherError(
            f"Berth stopped because {child.describe_end()} (log: {child.log}); "
            "its data is kept; ./dev run continues."
        )

    def _follow_replay(self) -> None:
        replay = self.replay
        if replay is None:
            return
        if replay.exit_code is not None:
            self._end_replay(replay)
            return
        if replay.log.stat().st_size == self.replay_read_bytes:
            return
        self.replay_read_bytes = replay.log.stat().st_size
        self.progress.label = self._work
        self.progress.update(last_line(replay.log))

    @property
    def _work(self) -> str:
        return "Programs" if self.backend == AGENT else "Replay"

    def _end_replay(self, replay: Child) -> None:
        self.replay = None
        if replay.exit_code in REPLAY_DONE:
            self.progress.write_line(f"{self._work} finished: {last_line(replay.log)}")
            return
        require_space(self.instance.home, MIN_FREE_BYTES)
        self.progress.write_line(f"{replay.describe_end()}; the next ./dev run continues it.")


def _responds(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5.0) as answer:  # noqa: S310  (http, this machine)
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def chosen_world(wanted: str | None, state: Mapping[str, Any]) -> str:
    """Return the world of an instance; its library and jobs stay in the first one.

    Raises
    ------
    LauncherError : another world was requested for existing data.
    """
    first = "paper" if state.get("servers") else None  # the only world of older versions
    before: str | None = state.get("world") or first
    chosen = wanted or before or DEFAULT_WORLD
    if before not in {None, chosen}:
        raise LauncherError(
            f"This instance emulates the {before} world. --fresh deletes its data and starts with "
            f"{chosen}."
        )
    return chosen


def chosen_backend(wanted: str | None, state: Mapping[str, Any]) -> str:
    """Return the backend of an instance, which keeps its first one.

    Raises
    ------
    LauncherError : another backend was requested for existing data.
    """
    before: str | None = state.get("backend") or (EMULATED if state.get("servers") else None)
    chosen = wanted or before or EMULATED
    if before not in {None, chosen}:
        raise LauncherError(
            f"The servers of this instance are of the backend {before}. --fresh deletes its data"
            f" and starts with {chosen}."
        )
    return chosen
