"""One profile: the program, one stressor after the other, and their windows."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from apps.execution.backends.profiler import machine, sandbox, scheduling
from apps.execution.backends.profiler.accounts import Account
from apps.execution.backends.profiler.counters import (
    CoreTimes,
    ThreadTimes,
    core_times,
)
from apps.execution.backends.profiler.program import Launcher, Program, Stretch, prepare
from apps.execution.backends.profiler.reference import ReferenceProcess
from apps.execution.backends.profiler.sandbox import Directory, Place
from apps.execution.backends.profiler.scheduling import Priority
from apps.execution.backends.profiler.stressor import StressProcess
from apps.profiling.core.paired import Pair, cpu_share, noise_prior
from apps.profiling.core.ramp import NoisePrior, ProbeFailedError
from apps.profiling.core.report import FORMAT, SourceReport
from apps.profiling.core.sensitivity import Sensitivity, State, measure
from apps.profiling.core.stressors import NOT_PRESSED, STRESSORS, Side, Stressor
from apps.profiling.core.windows import Basis, Fault, Window

SETTLE_S: Final = 0.05  # after a change of the stressor
NOISE_WINDOWS: Final = 12  # without a stressor, before the sources

OnProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """The command, the stressors, and how they are measured.

    Attributes
    ----------
    cpu : core of the program
    directory : working directory of the command, and where the disk is pressed
    has_sandbox : whether each run gets a sandbox
    environment, account : of the command; None = those of the profiler
    layers : directory for what the copies write; None = the working directory
    patience_s : max time of one run, or until the first report of progress
    """

    command: Sequence[str]
    stressors: Sequence[str]
    cpu: int
    directory: str
    window_s: float = 0.4
    patience_s: float = 20.0
    is_realtime: bool = True
    has_sandbox: bool = False
    environment: Mapping[str, str] | None = None
    account: Account | None = None
    layers: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """The outcome of a profile.

    Attributes
    ----------
    noise : of a pair, by basis; None if too few windows are valid
    sandbox : "copy-on-write", "empty directory", or None without one
    sandbox_note : what the sandbox does not enforce, and why; empty if nothing
    cpu_share : CPU seconds of the program per second without a stressor or wait for the core
    """

    started_at: str
    way: str
    priority_note: str
    is_realtime: bool
    sandbox: str | None
    sandbox_note: str
    machine: dict[str, object]
    noise: dict[str, NoisePrior | None]
    cpu_share: float | None
    pressure: tuple[float | None, float | None]
    sources: tuple[SourceReport, ...]

    def report(self, settings: Settings) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format": FORMAT,
            "command": list(settings.command),
            "started_at": self.started_at,
            "measured_by": self.way,
            "scheduling": "SCHED_FIFO" if self.is_realtime else "SCHED_OTHER",
            "scheduling_note": self.priority_note or None,
            "sandbox": self.sandbox,
            "sandbox_note": self.sandbox_note or None,
            "window_s": settings.window_s,
            "machine": self.machine,
            "cpu_pressure": {"before": self.pressure[0], "after": self.pressure[1]},
            "noise_of_a_pair": {
                basis: None if prior is None else prior.deviation
                for basis, prior in self.noise.items()
            },
            "cpu_share": self.cpu_share,
            "sources": [source.as_json() for source in self.sources],
            "not_pressed": NOT_PRESSED,
        }


def profile(settings: Settings, on_progress: OnProgress) -> Profile:
    """Measure how sensitive a command is to each stressor.

    Raises
    ------
    UnfitMachineError, NoProgressError : this machine or this command cannot be measured.
    """
    machine.require_counters()
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, usable - {settings.cpu} or usable)  # out of the program's way
    priority = scheduling.request((settings.cpu,), is_wanted=settings.is_realtime)
    try:
        with (
            started(settings, priority) as program,
            ReferenceProcess(settings.cpu, priority) as reference,
        ):
            return Session(settings, priority, program, reference, on_progress).run()
    finally:
        scheduling.restore()
        os.sched_setaffinity(0, usable)


@contextmanager
def started(settings: Settings, priority: Priority) -> Iterator[Program]:
    """Start the program, and end it afterwards."""
    with tempfile.TemporaryDirectory(prefix="berth-profile-") as folder:
        progress = Path(folder) / "progress"
        with _place(settings, progress) as place:
            launcher = Launcher(
                settings.command,
                priority,
                place,
                progress,
                environment=settings.environment,
                account=settings.account,
            )
            program = prepare(launcher, patience_s=settings.patience_s)
            try:
                yield program
            finally:
                program.close()


def _place(settings: Settings, progress: Path) -> AbstractContextManager[Place]:
    if settings.has_sandbox:
        return sandbox.opened(
            settings.directory, progress, account=settings.account, layers=settings.layers
        )
    return nullcontext(Directory(settings.directory, str(progress)))


@dataclass(slots=True)
class _Marks:
    """Counters at both ends of a window: of the cores in it, of those near, and of processes."""

    own_cpus: frozenset[int]
    near_cpus: frozenset[int]
    stressor: StressProcess | None
    reference: ReferenceProcess
    own: list[CoreTimes] = field(default_factory=list)
    near: list[CoreTimes] = field(default_factory=list)
    stress: list[ThreadTimes] = field(default_factory=list)
    self_s: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)

    def __call__(self) -> None:
        self.own.append(core_times(self.own_cpus))
        self.near.append(core_times(self.near_cpus))
        self.stress.append(self.stressor.times() if self.stressor else ThreadTimes(0.0, 0.0))
        self.self_s.append(time.process_time() + self.reference.times().ran_s)
        self.samples.append(self.reference.count())


@dataclass(slots=True)
class Session:
    """A running profile."""

    settings: Settings
    priority: Priority
    program: Program
    reference: ReferenceProcess
    on_progress: OnProgress
    speeds: list[float] = field(default_factory=list)

    def run(self) -> Profile:
        """Measure all sources."""
        started_at, before = datetime.now(UTC).isoformat(timespec="seconds"), machine.pressure()
        self.on_progress("noise of windows without a stressor")
        alone = [self.window(None, 0) for _ in range(NOISE_WINDOWS)]
        noise = {basis: noise_prior(alone, basis) for basis in Basis}
        sources = []
        for number, name in enumerate(self.settings.stressors, 1):
            self.on_progress(f"{number} of {len(self.settings.stressors)}: {name}")
            sources.append(self.source(STRESSORS[name], noise[STRESSORS[name].basis]))
        return Profile(
            started_at=started_at,
            way=self.program.way,
            priority_note=self.priority.note,
            is_realtime=self.priority.is_realtime,
            sandbox=self.program.place.sandbox,
            sandbox_note=self.program.place.note,
            machine=machine.facts((self.settings.cpu,)),
            noise={basis.value: prior for basis, prior in noise.items()},
            cpu_share=cpu_share(alone),
            pressure=(before, machine.pressure()),
            sources=tuple(sources),
        )

    def source(self, stressor: Stressor, prior: NoisePrior | None) -> SourceReport:
        """Measure one source."""
        cpu: int | None = self.settings.cpu
        if stressor.side is Side.OTHER:
            cpu = machine.other_core(self.settings.cpu)
        if cpu is None:
            return SourceReport(stressor, _unmeasured("the machine has no other core"))
        self.speeds.clear()
        try:
            with StressProcess(stressor, cpu, self.settings.directory, self.priority) as process:
                found = measure(
                    lambda intensity, on_first: self.pair(process, intensity, on_first),
                    stressor.basis,
                    prior or NoisePrior(),
                )
                alone = process.alone
        except ProbeFailedError as error:
            return SourceReport(stressor, _unmeasured(str(error)))
        speed = fmean(self.speeds) if self.speeds else None
        return SourceReport(stressor, found, alone=alone, stressor_speed=speed)

    def pair(self, process: StressProcess, intensity: int, is_on_first: bool) -> Pair:
        """Run one pair of windows."""
        order = (intensity, 0) if is_on_first else (0, intensity)
        windows = [self.window(process, level) for level in order]
        return Pair(*(windows if is_on_first else reversed(windows)))

    def window(self, process: StressProcess | None, intensity: int) -> Window:
        """Run one window."""
        cpus = {self.settings.cpu}
        if process and not process.is_timed_by_wall:
            cpus.add(process.cpu)
        near = set(machine.caches(self.settings.cpu).shared_by) | cpus
        marks = _Marks(frozenset(cpus), frozenset(near), process, self.reference)
        if process and intensity:
            process.on(intensity)
        time.sleep(SETTLE_S)
        stretch = self.program.stretch(self.settings.window_s, marks)
        pressed = 0.0
        if process:
            account = process.off()
            pressed = account.pressed if intensity else 0.0
            if intensity:
                self.speeds.append(account.speed)
        told = process.stressor.max_share * intensity / 100.0 if process else 0.0
        return _window(stretch, marks, told=told, pressed=pressed)


def _window(stretch: Stretch, marks: _Marks, *, told: float, pressed: float) -> Window:
    """Put the readings of one window together."""
    if stretch.fault or len(marks.own) < 2:
        return Window(0.0, 0.0, 0.0, fault=stretch.fault or Fault.ENDED)
    process, ran_s = marks.stressor, marks.stress[1].ran_s - marks.stress[0].ran_s
    ours_s = stretch.cpu_s + ran_s + marks.self_s[1] - marks.self_s[0]
    is_waiting = process is not None and process.is_timed_by_wall
    near_s = max(0.0, marks.near[1].busy_s - marks.near[0].busy_s - ours_s)
    if is_waiting:
        # threads of the kernel write the blocks of such a stressor; do not check its core
        ours_s, near_s = ours_s - ran_s, 0.0
    else:
        # count the pressing that the stressor reports only as far as the kernel confirms it
        pressed = min(pressed, ran_s / stretch.wall_s)
    return Window(
        wall_s=stretch.wall_s,
        work=stretch.work,
        cpu_s=stretch.cpu_s,
        wait_s=stretch.wait_s,
        told=told,
        pressed=pressed,
        shared_s=ran_s if process is not None and process.stressor.side is Side.SAME else 0.0,
        foreign_s=max(0.0, marks.own[1].busy_s - marks.own[0].busy_s - ours_s),
        steal_s=marks.own[1].steal_s - marks.own[0].steal_s,
        nearby_s=near_s,
        cores=len(marks.own_cpus),
        loop_s=marks.reference.loop_s(*marks.samples),
    )


def _unmeasured(reason: str) -> Sensitivity:
    return Sensitivity(State.INVALID, reason, None, None, None, (), {})
