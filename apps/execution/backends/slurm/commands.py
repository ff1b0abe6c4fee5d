"""Slurm's command-line programs as functions: one short process each."""

import logging
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from apps.common.core.errors import TransientError
from apps.execution.core.slurm.answers import Version, read_jobs, read_nodes, version_of
from apps.execution.core.slurm.edits import Edit, read_refusals, releases, written
from apps.execution.core.slurm.usage import SACCT, SSTAT, Usage, read_ended, read_usage
from apps.execution.core.slurm.values import SlurmJob, SlurmNode

TIMEOUT_S: Final = 30.0  # Slurm's own MessageTimeout is 10 s
MAX_NAMED: Final = 5000  # jobs of one program: Linux limits an argument to 128 KiB
DISABLED: Final = "accounting storage is disabled"  # says sacct without accounting
_logger = logging.getLogger("berth.slurm")


class SlurmAwayError(TransientError):
    """The controller of Slurm does not answer, or a program of Slurm is missing."""


@dataclass
class Slurm:
    """The Slurm that a configuration names; this process may edit the jobs of all users.

    Attributes
    ----------
    config : path of slurm.conf; None = SLURM_CONF, or Slurm's own default
    path : directories of the programs
    before_change : called before each program that changes jobs; may raise, so that none starts
    """

    config: str | None = None
    path: str = field(default_factory=lambda: os.environ.get("PATH", os.defpath))
    before_change: Callable[[], None] = field(default=lambda: None, kw_only=True)

    @cached_property
    def version(self) -> Version:
        """The version of the programs.

        Raises
        ------
        AnswerError : too old, or no version.
        """
        return version_of(self._run(["scontrol", "--version"]))

    def jobs(self) -> list[SlurmJob]:
        """Return all jobs that the controller knows: those that ended stay for MinJobAge."""
        return read_jobs(self._run(["squeue", "--json"]))

    def nodes(self) -> list[SlurmNode]:
        """Return all nodes."""
        return read_nodes(self._run(self.version.nodes))

    def edit(self, edits: Sequence[Edit]) -> Mapping[int, str]:
        """Apply edits in order, then release jobs; returns the refusals by job."""
        refused = self._edit(written(edits))
        return self._edit(releases(edits, refused)) | refused

    def _edit(self, lines: str) -> dict[int, str]:
        if not lines:
            return {}
        self.before_change()
        done = self._start(["scontrol"], text=lines)
        refusals = read_refusals(done.stderr)
        if done.returncode != 0 and not refusals:
            raise _failed(["scontrol"], done)
        return refusals

    def cancel(self, jobs: Iterable[int]) -> None:
        """Cancel jobs; those that have ended are ignored."""
        for ids in _batches(jobs):
            self.before_change()
            self._run(["scancel", "--quiet", *ids])

    def usage(self, jobs: Iterable[int]) -> dict[int, Usage]:
        """Return what running jobs have used so far; jobs without a step are left out."""
        found: dict[int, Usage] = {}
        for ids in _batches(jobs):
            # a job that has just ended is an error of sstat, whatever it prints of the others
            found |= read_usage(self._start([*SSTAT, "--jobs", ",".join(ids)]).stdout)
        return found

    def ended(self, jobs: Iterable[int]) -> dict[int, SlurmJob] | None:
        """Return jobs that the accounting knows and that have ended; None if it does not answer.

        Without accounting, no job is known.
        """
        found: dict[int, SlurmJob] = {}
        for ids in _batches(jobs):
            ended = self._ended(ids)
            if ended is None:
                return None
            found |= ended
        return found

    def _ended(self, ids: Sequence[str]) -> dict[int, SlurmJob] | None:
        try:
            done = self._start([*SACCT, "--jobs", ",".join(ids)])
        except SlurmAwayError as error:
            _logger.warning("no answer of the accounting: %s", error)
            return None
        if done.returncode == 0:
            return read_ended(done.stdout)
        if DISABLED in done.stderr:
            return {}
        _logger.warning("no answer of the accounting: %s", _failed(SACCT, done))
        return None

    def _run(self, command: Sequence[str]) -> str:
        done = self._start(command)
        if done.returncode != 0:
            raise _failed(command, done)
        return done.stdout

    def _start(
        self, command: Sequence[str], *, text: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        environment = {"PATH": self.path, "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s"}
        config = self.config or os.environ.get("SLURM_CONF")
        if config:
            environment["SLURM_CONF"] = config
        try:
            return subprocess.run(  # noqa: S603 - programs of Slurm, with ids and names of nodes
                command,
                env=environment,
                input=text,
                capture_output=True,
                text=True,
                errors="replace",  # the name of a job may be any bytes
                timeout=TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError as error:
            msg = f"{command[0]} is not installed here, or not in {self.path}"
            raise SlurmAwayError(msg) from error
        except subprocess.TimeoutExpired as error:
            msg = f"{command[0]} did not answer within {TIMEOUT_S:.0f} s"
            raise SlurmAwayError(msg) from error


def _batches(jobs: Iterable[int]) -> Iterator[list[str]]:
    ids = [str(job) for job in jobs]
    return (ids[begin : begin + MAX_NAMED] for begin in range(0, len(ids), MAX_NAMED))


def _failed(command: Sequence[str], done: "subprocess.CompletedProcess[str]") -> SlurmAwayError:
    said = " ".join((done.stderr or done.stdout).split())[:300]
    return SlurmAwayError(f"{command[0]} failed with exit code {done.returncode}: {said}")
