"""Measures two commands alone and next to each other; runs as the command of a job.

It needs Python 3.11 and its standard library only, as its text is sent to the machine. In each
window one command runs, or both, again and again on their cores. It prints a line of JSON for each
round, and a last one.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

TICK_S: Final = 1.0 / os.sysconf("SC_CLK_TCK")
MAX_STDERR: Final = 300
MIN_ROUNDS: Final = 3
Spec = Mapping[str, Any]


class FailedError(Exception):
    """A command failed or takes too long; the message says which."""


class Program:
    """One command on its cores."""

    def __init__(self, name: str, side: Spec, cores: frozenset[int]) -> None:
        self.name, self.cores = name, cores
        self.stderr: IO[bytes] | None = None
        self._command = side["command"]
        self._directory = side.get("working_directory") or None
        own = {name: text for name, text in os.environ.items() if name != "BERTH_PROGRESS"}
        self._environment = {**own, **side.get("environment", {})}

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the command as a group of its own, with the affinity of the calling thread.

        Raises
        ------
        FailedError : it cannot be started.
        """
        try:
            return subprocess.Popen(  # noqa: S603 - the command that the user asked for
                self._command, cwd=self._directory, env=self._environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=self.stderr or subprocess.DEVNULL, process_group=0,
            )  # fmt: skip
        except OSError as error:
            raise FailedError(f"{self.name} cannot be started: {error}") from error

    def ended(self, code: int) -> FailedError:
        """Return the error of a run that failed."""
        text = ""
        if self.stderr is not None:
            self.stderr.seek(0)
            text = self.stderr.read().decode(errors="replace").strip()[-MAX_STDERR:]
        return FailedError(f"{self.name} ended with exit code {code}" + (text and f": {text}"))


class Repeating(threading.Thread):
    """Runs a program again and again until it is stopped; counts complete runs."""

    def __init__(self, program: Program) -> None:
        super().__init__(daemon=True)
        self.program, self.failure = program, ""
        self.runs, self.cpu_s, self.began_s, self.ended_s = 0, 0.0, 0.0, 0.0
        self._lock, self._is_over = threading.Lock(), False
        self._pid: int | None = None

    def run(self) -> None:
        """Run the program; a failure ends it and is kept."""
        os.sched_setaffinity(0, self.program.cores)  # of this thread; its children inherit it
        self.began_s = self.ended_s = time.monotonic()
        try:
            while not self._is_over:
                self._run_once()
        except FailedError as error:
            self.failure = str(error)

    def _run_once(self) -> None:
        with self._lock:
            if self._is_over:
                return
            process = self.program.start()
            self._pid = process.pid
        # does not reap it, so that its number is not given to another process before the lock
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = code = os.waitstatus_to_exitcode(status)
            self._pid = None
            if self._is_over:
                return
            self.cpu_s += used.ru_utime + used.ru_stime
            self.runs, self.ended_s = self.runs + 1, time.monotonic()
        if code != 0:
            raise self.program.ended(code)

    def stop(self) -> None:
        """Kill the current run, which does not count; its CPU time does."""
        with self._lock:
            self._is_over = True
            if self._pid is not None:
                self.cpu_s += group_cpu_s(self._pid)
                with suppress(ProcessLookupError):
                    os.killpg(self._pid, signal.SIGKILL)
        self.join()

    @property
    def run_s(self) -> float:
        """Mean seconds of a complete run."""
        return (self.ended_s - self.began_s) / self.runs


def group_cpu_s(group: int) -> float:
    """Return the CPU seconds of the processes of a group, with those of their ended children."""
    ticks = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15])) if int(fields[2]) == group else 0
    return ticks * TICK_S


def busy_s(cores: frozenset[int]) -> float:
    """Return the seconds in which cores were busy or taken by the hypervisor."""
    names, ticks = {f"cpu{core}" for core in cores}, 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name in names:
            user, nice, system, _idle, _wait, irq, soft, stolen = map(int, fields[:8])
            ticks += user + nice + system + irq + soft + stolen
    return ticks * TICK_S


def window(
    programs: Sequence[Program], cores: frozenset[int], spec: Spec
) -> tuple[list[float], float]:
    """Run programs together; return their seconds per run, and the share of foreign work.

    Raises
    ------
    FailedError : a program failed, or completed no run in time.
    """
    before_s, own = busy_s(cores), os.times()
    began_s = time.monotonic()
    running = [Repeating(program) for program in programs]
    for each in running:
        each.start()
    try:
        wait(running, began_s, spec)
    finally:
        for each in running:
            each.stop()
    wall_s, after = time.monotonic() - began_s, os.times()
    used_s = sum(each.cpu_s for each in running)
    used_s += after.user + after.system - own.user - own.system
    foreign_s = max(0.0, busy_s(cores) - before_s - used_s)
    return [each.run_s for each in running], foreign_s / (wall_s * len(cores))


def wait(running: Sequence[Repeating], began_s: float, spec: Spec) -> None:
    """Wait until the window is over and every program has completed a run.

    Raises
    ------
    FailedError : a program failed, or completed no run in time.
    """
    while True:
        failed = [each.failure for each in running if each.failure]
        if failed:
            raise FailedError(failed[0])
        elapsed_s = time.monotonic() - began_s
        if elapsed_s >= spec["window_s"] and all(each.runs for each in running):
            return
        if elapsed_s > spec["window_s"] + spec["patience_s"]:
            slow = next(each.program.name for each in running if not each.runs)
            raise FailedError(f"{slow} completed no run within {elapsed_s:.0f} s")
        time.sleep(0.01)


def measure_round(
    number: int, programs: Sequence[Program], cores: frozenset[int], spec: Spec
) -> dict[str, Any]:
    """Measure both programs alone and together; the order rotates with the rounds."""
    parts: list[tuple[int, ...]] = [(0,), (1,), (0, 1)]
    turn = number % len(parts)
    found, foreign = {}, 0.0
    for part in parts[turn:] + parts[:turn]:
        found[part], share = window([programs[side] for side in part], cores, spec)
        foreign = max(foreign, share)
    return {
        "counts": foreign <= spec["max_foreign"],
        "alone": [found[0,][0], found[1,][0]],
        "together": found[0, 1],
        "foreign": foreign,
    }


def report_progress(done: int, spec: Spec) -> None:
    """Report progress to Berth."""
    path = os.environ.get("BERTH_PROGRESS")
    if path:
        with open(path, "a") as file:
            file.write(f"{done / spec['rounds']:.3f} round {done} of {spec['rounds']}\n")


def say(line: Spec) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def programs_of(spec: Spec, usable: Sequence[int]) -> list[Program]:
    """Return both programs, each on cores of its own.

    Raises
    ------
    FailedError : the job has too few cores.
    """
    first, second = (side["units"] for side in spec["sides"])
    if len(usable) < first + second:
        raise FailedError(f"the job has {len(usable)} cores, and {first + second} are needed")
    places = usable[:first], usable[first : first + second]
    names = ("the first command", "the second command")
    return [
        Program(name, side, frozenset(cores))
        for name, side, cores in zip(names, spec["sides"], places, strict=True)
    ]


def warm_up(program: Program, spec: Spec) -> None:
    """Run a program once: it fills the caches, and shows whether the program works."""
    with tempfile.TemporaryFile() as stderr:
        program.stderr = stderr
        window([program], program.cores, {**spec, "window_s": 0.0})
        program.stderr = None


def measure(spec: Spec) -> None:
    """Measure until enough rounds count; give up after twice as many and two more.

    Raises
    ------
    FailedError : a program failed, or too few rounds count.
    """
    programs = programs_of(spec, sorted(os.sched_getaffinity(0)))
    cores = programs[0].cores | programs[1].cores
    for program in programs:
        warm_up(program, spec)
    done = 0
    for tried in range(2 * spec["rounds"] + 2):
        found = measure_round(tried, programs, cores, spec)
        done += found["counts"]
        say(found)
        report_progress(done, spec)
        if done == spec["rounds"]:
            return
    if done < MIN_ROUNDS:
        share = f"{100 * spec['max_foreign']:g} % of the cores"
        raise FailedError(f"other programs used more than {share} in all rounds but {done}")


def main(text: str) -> int:
    """Measure what the specification says; return the exit code."""
    try:
        measure(json.loads(text))
    except FailedError as error:
        say({"failed": str(error)})
        return 1
    say({"done": True})
    return 0


if __name__ == "__main__":
    # the commands are groups of their own: end them before this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1]))
