"""What jobs have used, and jobs that ended long ago: the tables of sstat and sacct."""

from dataclasses import dataclass
from typing import Final

from apps.execution.core.slurm.answers import AnswerError
from apps.execution.core.slurm.hostlist import expand
from apps.execution.core.slurm.values import PHASES, Phase, SlurmJob

SSTAT: Final = (
    *("sstat", "--allsteps", "--noheader", "--parsable2", "--noconvert"),
    "--format=JobID,AveCPU,MaxRSS,NTasks",
)
SACCT: Final = (
    *("sacct", "--allocations", "--noheader", "--parsable2", "--duplicates"),
    "--format=JobIDRaw,State,NodeList,Start,End,ExitCode",
)
_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a job: CPU seconds of all tasks, and the most memory of one task."""

    cpu_s: float
    max_rss_bytes: int


def read_usage(text: str) -> dict[int, Usage]:
    """Return the usage by job from the lines of `SSTAT`, one for each step.

    Raises
    ------
    AnswerError : a line has another form.
    """
    found: dict[int, Usage] = {}
    for line in text.splitlines():
        try:
            step, cpu, rss, tasks = line.split("|")
            job = int(step.partition(".")[0])
            cpu_s, peak = duration_s(cpu) * int(tasks or 1), _bytes(rss)
        except ValueError as error:
            raise AnswerError(f"sstat wrote a line of another form: {line!r:.120}") from error
        before = found.get(job, Usage(0.0, 0))
        found[job] = Usage(before.cpu_s + cpu_s, max(before.max_rss_bytes, peak))
    return found


def read_ended(text: str) -> dict[int, SlurmJob]:
    """Return the jobs that have ended from the lines of `SACCT`; of several runs the last one.

    Raises
    ------
    AnswerError : a line has another form.
    """
    found: dict[int, SlurmJob] = {}
    for line in text.splitlines():
        try:
            job, state, nodes, start, end, code = line.split("|")
            status, signal = (int(part) for part in code.split(":"))
            state = state.split(" ")[0].upper()  # CANCELLED by 1000
            phase = PHASES[state]
            row = SlurmJob(
                id=int(job),
                state=state,
                nodes=() if nodes == "None assigned" else expand(nodes),
                started_s=float(start) if start.isdigit() else None,
                ended_s=float(end) if end.isdigit() else None,
                exit_code=-signal if signal else status,
            )
        except (ValueError, KeyError) as error:
            raise AnswerError(f"sacct wrote a line of another form: {line!r:.120}") from error
        if phase is Phase.ENDED:
            found[row.id] = row
        else:
            found.pop(row.id, None)
    return found


def duration_s(text: str) -> float:
    """Return the seconds of ``[days-]hours:minutes:seconds`` or ``minutes:seconds``."""
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60.0 + float(part or 0.0)
    return seconds + 86_400.0 * int(days or 0)


def _bytes(text: str) -> int:
    unit = text[-1:] if text[-1:].isalpha() else ""
    return int(float(text[: len(text) - len(unit)] or 0.0) * _UNITS[unit]) if text else 0
