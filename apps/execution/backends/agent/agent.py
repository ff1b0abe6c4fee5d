"""The agent of one machine: two threads, one that asks for orders and one that reports.

It talks to the control plane only, and only from its side. Everything that must survive it is in
its state directory, and its tasks run under supervisors of their own.
"""

import fcntl
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final
from urllib.parse import urljoin

from apps.common.infrastructure.stop_signal import StopSignal
from apps.execution.backends.agent import probing
from apps.execution.backends.agent.accounts import Accounts
from apps.execution.backends.agent.fetching import Fetching
from apps.execution.backends.agent.leases import lease_clock_s, write_lease
from apps.execution.backends.agent.link import AwayError, Link, RefusedError
from apps.execution.backends.agent.machine import (
    Machine,
    UsageMeter,
    described_groups,
    l3_groups,
    shape,
)
from apps.execution.backends.agent.sending import Sending
from apps.execution.backends.agent.task import Task
from apps.execution.backends.agent.tasks import Tasks
from apps.execution.backends.agent.wakes import Wakes
from apps.execution.core.agent.reconcile import reconcile
from apps.execution.core.agent.wire import (
    HEARTBEAT_S,
    LOST,
    MAX_STREAM_WAIT_S,
    MAX_WAIT_S,
    PROTOCOL,
    RESUMED,
    STARTED,
    SUSPENDED,
    KnownOrders,
    TaskReport,
    TaskSample,
    known_orders,
    known_orders_json,
    read_order,
)
from apps.execution.core.port import CommandOrder, Outcome

TICK_S: Final = 0.5  # between two looks at the tasks if nothing wakes the agent
GATHER_S: Final = 0.01  # after a wake: what comes together is sent together
STREAM_AGAIN_S: Final = (1.0, 30.0)  # after the stream process did not answer: at first, at most
AWAY_S: Final = 1.0  # between two attempts while the control plane is away
NOT_FOUND: Final = 404
SUPERSEDED: Final = 409
UNAUTHORISED: Final = 401
_OUTCOME: Final = {"stopped": Outcome.CANCELLED, "duration": Outcome.FAILED, "fenced": LOST}
logger = logging.getLogger("berth.agent")


class FencedError(Exception):
    """Another agent runs the machine now; this one has stopped its tasks."""


@contextmanager
def only_agent(state: Path) -> Iterator[None]:
    """Hold the state directory; the kernel releases it when this process ends.

    Raises
    ------
    FencedError : another agent holds it.
    """
    with (state / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FencedError(f"another agent runs in {state}") from error
        yield


@dataclass(slots=True)
class Agent:
    """A running agent.

    Attributes
    ----------
    epoch : of its registration
    lease_s : wall seconds without an answer after which the tasks stop
    """

    link: Link
    machine: Machine
    stop: StopSignal = field(default_factory=StopSignal)
    epoch: int = 0
    lease_s: float = 0.0
    _tasks: Tasks = field(init=False)
    _wakes: Wakes = field(init=False)
    _known: KnownOrders = field(default_factory=KnownOrders)  # by the last answer
    _recorded: dict[int, bool] = field(default_factory=dict)  # suspensions, as last recorded
    _orders_url: str = ""
    _stream_s: float = 0.0  # second of the monotonic clock from which the stream is asked again
    _stream_pause_s: float = STREAM_AGAIN_S[0]  # after its next failure
    _answers: list[TaskReport] = field(default_factory=list)  # to orders that have no task
    _lock: Lock = field(default_factory=Lock)
    _fetching: Fetching = field(init=False)
    _sending: Sending = field(init=False)
    _failure: Exception | None = None

    def __post_init__(self) -> None:
        machine = self.machine
        self._wakes = Wakes(machine.state / "wake")
        self._tasks = Tasks(
            machine.state,
            machine.cpus,
            server=machine.server,
            accounts=Accounts(machine.user, machine.users),
        )
        self._sending = Sending(self.link, self._wakes)
        self._fetching = Fetching(
            self.link, self._tasks, self._lock, self.stop, self._wakes, self._give_back
        )

    def run(self) -> None:
        """Register, then work until `stop` is set.

        Raises
        ------
        FencedError : another agent has registered as this server, or the credential is invalid.
        """
        self._tasks.begin()
        try:
            self._register()
            asking = Thread(target=self._guarded, args=(self._ask,), daemon=True)
            asking.start()
            self._guarded(self._report)
        finally:
            self._tasks.end()
        if self._failure is not None:
            raise self._failure

    def _guarded(self, work: Any) -> None:
        """Repeat a step until the agent stops; wait while the control plane is away."""
        is_away = False
        while not self.stop.is_set():
            try:
                work()
            except AwayError as error:
                if not is_away:
                    logger.warning("the control plane is away: %s", error)
                is_away = True
                self.stop.wait(AWAY_S)
            except RefusedError as error:
                self._refused(error)
            except Exception as error:
                # what ends one thread ends the agent: it is started again, and its tasks go on
                self._failure = error
                self.stop.set()
                raise
            else:
                if is_away:
                    logger.info("the control plane answers again")
                is_away = False

    def _refused(self, error: RefusedError) -> None:
        if error.status == SUPERSEDED:
            (self.machine.state / "lease").write_text("0")  # the supervisors stop their tasks
            self._failure = FencedError(str(error))
            self.stop.set()
            return
        # a credential that is invalid now is not given a longer lease, so the tasks stop with it
        logger.error("the control plane refuses this agent: %s", error)
        self.stop.wait(HEARTBEAT_S)

    def _register(self) -> None:
        machine = self.machine
        facts = {
            "protocol": PROTOCOL,
            "user": machine.user,
            "users": list(machine.users),
            "cpus": list(machine.cpus),
            "limits": self._tasks.limits(),
            "probe": probing.is_possible(),
        }
        idle, peak = machine.watts
        groups = l3_groups(machine.cpus)
        if machine.l3_described:
            groups = described_groups(machine.cpus, machine.l3_described)
            facts["l3_groups"] = "described, not read from the machine"
        body = {
            **shape(machine.cpus, machine.state, memory_bytes=machine.memory_bytes),
            "rack": machine.rack,
            "idle_watts": idle,
            "peak_watts": peak,
            "facts": facts,
            **({"l3_groups": groups} if groups else {}),  # an older control plane does not know it
        }
        while not self.stop.is_set():
            sent_s = lease_clock_s()
            try:
                found = self.link.post("register", body)
            except AwayError as error:
                logger.warning("the control plane is away: %s", error)
                self.stop.wait(AWAY_S)
                continue
            except RefusedError as error:
                raise FencedError(str(error)) from error
            self.epoch, self.lease_s = found["epoch"], found["lease_s"]
            self._orders_url = urljoin(self.link.url, found["orders_url"])
            self._renew(sent_s)
            logger.info("registered %s, epoch %d", machine.server, self.epoch)
            return

    def _renew(self, sent_s: float) -> None:
        """Write down until when the tasks may run: counted from when the request was sent.

        Parameters
        ----------
        sent_s : second of `lease_clock_s`
        """
        write_lease(self.machine.state / "lease", sent_s + self.lease_s)

    def _ask(self) -> None:
        """Wait for orders other than those of the last answer, and carry them out."""
        begun_s, known = time.monotonic(), self._known
        self._known = known_orders(self._awaited(known_orders_json(known)))
        if known == self._known and time.monotonic() - begun_s < AWAY_S:
            self.stop.wait(AWAY_S)  # too many agents wait there: it has not waited

    def _awaited(self, body: dict[str, Any]) -> list[CommandOrder]:
        """Wait on the stream process, or on the web process if that cannot be reached."""
        if time.monotonic() >= self._stream_s:
            sent_s = time.monotonic()
            given = {"epoch": self.epoch, **body, "wait_s": MAX_STREAM_WAIT_S}
            try:
                found = self.link.post(self._orders_url, given, wait_s=MAX_STREAM_WAIT_S)
            except (AwayError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.status != NOT_FOUND:
                    raise
                logger.info("no orders from %s: %s", self._orders_url, error)
                self._stream_s = time.monotonic() + self._stream_pause_s
                self._stream_pause_s = min(2.0 * self._stream_pause_s, STREAM_AGAIN_S[1])
            else:
                self._stream_pause_s = STREAM_AGAIN_S[0]
                return self._obey(found, sent_s)
        return self._exchange({**body, "wait_s": MAX_WAIT_S}, wait_s=MAX_WAIT_S)

    def _exchange(self, body: dict[str, Any], *, wait_s: float = 0.0) -> list[CommandOrder]:
        """Report, receive all orders, and act on them."""
        sent_s, renewed_s = time.monotonic(), lease_clock_s()
        found = self.link.post("sync", {"epoch": self.epoch, **body}, wait_s=wait_s)
        if "usage" in body:  # a heartbeat: only then does the control plane renew it too
            self._renew(renewed_s)
        return self._obey(found, sent_s)

    def _obey(self, found: dict[str, Any], sent_s: float) -> list[CommandOrder]:
        """Carry out all orders of an answer to a request."""
        with self._lock:
            orders = [read_order(order) for order in found["orders"]]
            actions = reconcile(orders, self._tasks.facts(), asked_s=sent_s)
            self._fetching.keep(orders)
            for order in actions.start:
                self._begin(order)
            for launch in actions.stop:
                self._tasks.get(launch).stop()
            for launch in actions.suspend:
                with suppress(OSError):  # a full disk; every answer repeats it
                    self._tasks.get(launch).suspend()
            for launch in actions.resume:
                self._tasks.get(launch).resume()
            self._recorded = {order.launch: order.is_suspended for order in orders}
            self._answers += [TaskReport(n, Outcome.CANCELLED, 0.0) for n in actions.cancel]
            self._answers += [
                TaskReport(n, LOST, 0.0, "its agent does not know it") for n in actions.lose
            ]
            if self._answers:
                self._wakes.wake()
        return orders

    def _begin(self, order: CommandOrder) -> None:
        """Start an order, or fetch its files; if there is no room, its job is queued again."""
        try:
            if reason := self._tasks.refusal(order):
                self._tasks.refuse(order, reason)
                self._wakes.wake()
            elif order.files:
                self._fetching.begin(order, self.epoch)
            else:
                self._tasks.start(order)
        except (OSError, LookupError) as error:
            self._give_back(order, error)

    def _give_back(self, order: CommandOrder, error: Exception) -> None:
        """Let the job of an order be queued again, which could not be started."""
        logger.error("launch %d could not be started: %s", order.launch, error)
        message = f"its agent could not start it: {error}"
        self._answers.append(TaskReport(order.launch, LOST, 0.0, message))
        self._wakes.wake()

    def _report(self) -> None:
        """Send what has changed, and a heartbeat, until the agent stops."""
        meter, beat_s = UsageMeter(self.machine.cpus, self.machine.state), 0.0
        while not self.stop.is_set():
            with self._lock:
                self._tasks.prepare()
            if self._wakes.wait(TICK_S):
                self.stop.wait(GATHER_S)
            with self._lock:
                answers, self._answers = self._answers, []
            reports = [*answers, *self._changes(beat_s + HEARTBEAT_S)]
            is_due = time.monotonic() - beat_s >= HEARTBEAT_S
            samples = self._samples()
            if not reports and not samples and not is_due:
                continue
            self._exchange(
                {
                    "reports": [asdict(report) for report in reports],
                    "samples": [asdict(sample) for sample in samples],
                    "usage": asdict(meter.read()),
                }
            )
            beat_s = time.monotonic()
            for report in reports:
                self._confirm(report)
            self._tasks.forget()

    def _changes(self, until_s: float) -> list[TaskReport]:
        """Send output until a time, and return the starts and ends to report."""
        tasks = self._sending.in_turn(self._tasks)
        return [report for x in tasks if (report := self._change(x, until_s)) is not None]

    def _samples(self) -> list[TaskSample]:
        running = (task for task in self._tasks if task.is_start_reported)
        return [
            sample
            for task in running
            if not task.is_end_reported and (sample := task.sample()) is not None
        ]

    def _change(self, task: Task, until_s: float) -> TaskReport | None:
        if task.is_end_reported:
            return None
        is_watched = task.has_supervisor()
        ended = task.read("exit")  # read first: then its output is complete
        is_sent = self._sending.send(task, self.epoch, is_last=ended is not None, until_s=until_s)
        now_s = time.monotonic()
        if ended is not None:
            return end_report(task, ended, now_s) if is_sent else None
        if not is_watched and task.give_up():
            task.kill_left()  # before its job is queued again
            return TaskReport(task.launch, LOST, 0.0, "its process on the machine is gone")
        if task.is_start_reported:
            return self._suspension(task, now_s)
        started = task.read("started")
        if started is None:
            return None
        return TaskReport(task.launch, STARTED, max(0.0, now_s - started["at_s"]))

    def _suspension(self, task: Task, now_s: float) -> TaskReport | None:
        """Return a report if the control plane has recorded something else than what is."""
        found = task.suspension()
        if self._recorded.get(task.launch, found.is_suspended) is found.is_suspended:
            return None
        state = SUSPENDED if found.is_suspended else RESUMED
        age_s = 0.0 if found.at_s is None else max(0.0, now_s - found.at_s)
        return TaskReport(task.launch, state, age_s)

    def _confirm(self, report: TaskReport) -> None:
        if report.launch not in self._tasks.facts():
            return
        task = self._tasks.get(report.launch)
        if report.state == STARTED:
            task.is_start_reported = True
        elif report.state not in {SUSPENDED, RESUMED}:
            task.confirm_end()


def end_report(task: Task, ended: Mapping[str, Any], now_s: float) -> TaskReport:
    """Return the report of what the supervisor of a task has written about its end."""
    state = _OUTCOME.get(ended["reason"])
    if state is None:
        state = Outcome.FINISHED if ended["code"] == 0 else Outcome.FAILED
    age_s = max(0.0, now_s - ended["at_s"])
    started = task.read("started")
    ran_s = None if started is None else max(0.0, ended["at_s"] - started["at_s"])
    return TaskReport(task.launch, state, age_s, ended["message"], ended["code"], ran_s)
