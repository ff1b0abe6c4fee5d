"""Answers of Slurm's commands with ``--json``, read into values, whatever their version.

From 22.05 to 23.02 a number became an object with ``set``, ``infinite`` and ``number``, and a
state a list of a state and its flags. Both forms are read. Fields that a version does not have are
read as their absence; an answer without the fields that Berth needs is an `AnswerError`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from apps.common.core.errors import ControlPlaneError
from apps.execution.core.slurm.hostlist import expand
from apps.execution.core.slurm.values import MEBIBYTE, PHASES, Phase, SlurmJob, SlurmNode

T = TypeVar("T")


class AnswerError(ControlPlaneError):
    """Slurm answered with something else than was asked for."""


@dataclass(frozen=True, slots=True)
class Version:
    """One release of Slurm, and how it is asked.

    Attributes
    ----------
    schema : name of the schema of its JSON, which is also the path of slurmrestd
    nodes : command that lists the nodes
    is_tried : whether Berth's tests run it; the others follow their documentation
    """

    schema: str
    nodes: tuple[str, ...] = ("scontrol", "show", "nodes", "--json")
    is_tried: bool = False


VERSIONS: Final[dict[tuple[int, int], Version]] = {
    (22, 5): Version("v0.0.38", nodes=("sinfo", "--json"), is_tried=True),
    (23, 2): Version("v0.0.39"),
    (23, 11): Version("v0.0.40"),
    (24, 5): Version("v0.0.41"),
    (24, 11): Version("v0.0.42"),
    (25, 5): Version("v0.0.43"),
    (25, 11): Version("v0.0.44"),
}


def version_of(text: str) -> Version:
    """Return the version that ``scontrol --version`` prints; a newer one counts as the newest.

    Raises
    ------
    AnswerError : it is no version, or one before 22.05.
    """
    *_, release = text.split() or [""]
    try:
        major, minor = release.split(".")[:2]
        number = int(major), int(minor)
    except ValueError as error:
        raise AnswerError(f"scontrol --version printed {text!r:.80}, not a version") from error
    known = [each for each in VERSIONS if each <= number]
    if not known:
        raise AnswerError(f"Slurm {release} is too old: Berth needs 22.05 or newer")
    return VERSIONS[max(known)]


def read_jobs(text: str, *, source: str = "squeue") -> list[SlurmJob]:
    """Read the jobs of ``squeue --json``, or of another source with the same schema.

    Raises
    ------
    AnswerError : the text is no such answer, or reports errors.
    """
    return [_read("job", row, _job) for row in _rows(text, "jobs", source)]


def read_nodes(text: str, *, source: str = "the list of nodes") -> list[SlurmNode]:
    """Read the nodes of `Version.nodes`, or of another source with the same schema.

    Raises
    ------
    AnswerError : the text is no such answer, or reports errors.
    """
    return [_read("node", row, _node) for row in _rows(text, "nodes", source)]


def _rows(text: str, name: str, command: str) -> Sequence[Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        shown = text.strip()[:80]
        raise AnswerError(f"{command} did not answer with JSON, but {shown!r}") from error
    if not isinstance(document, Mapping):
        raise AnswerError(f"{command} answered with {type(document).__name__}, not an object")
    if document.get("errors"):
        first = document["errors"][0]
        described = first.get("description") or first.get("error") if _is_map(first) else first
        raise AnswerError(f"{command} reports: {described!s:.200}")
    rows = document.get(name)
    if not isinstance(rows, list):
        raise AnswerError(f"{command} answered without {name!r}")
    return rows


def _read(what: str, row: Any, read: Callable[[Any], T]) -> T:
    try:
        return read(row)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        name = row.get("job_id", row.get("name")) if _is_map(row) else row
        msg = f"Slurm described {what} {name!s:.40} in an unknown way: {error!r:.120}"
        raise AnswerError(msg) from error


def _job(row: Mapping[str, Any]) -> SlurmJob:
    states = [state for state in _texts(row["job_state"]) if state in PHASES]
    if not states:
        raise ValueError(f"state {row['job_state']!r}")
    cpus, nodes = _number(row["cpus"]) or 1, _number(row["node_count"]) or 1
    memory = _number(row.get("memory_per_node")) or 0
    per_cpu = _number(row.get("memory_per_cpu")) or 0
    return SlurmJob(
        id=int(row["job_id"]),
        # a flag such as COMPLETING says more than the state that it goes with
        state=states[-1],
        name=row.get("name") or "",
        user=row["user_name"],
        account=row.get("account") or "",
        partition=row.get("partition") or "",
        is_held=PHASES[states[-1]] is Phase.PENDING and _number(row["priority"]) == 0,
        reason=row.get("state_reason") or "",
        mark=row.get("admin_comment") or "",
        nodes=expand(row.get("nodes") or ""),
        required_nodes=expand(row.get("required_nodes") or ""),
        cpus=int(cpus),
        node_count=int(nodes),
        memory_bytes=int(memory or per_cpu * cpus / nodes) * MEBIBYTE,
        features=row.get("features") or "",
        command=row.get("command") or "",
        directory=row.get("current_working_directory") or "",
        submitted_s=_moment(row.get("submit_time")),
        started_s=_moment(row.get("start_time")),
        ended_s=_moment(row.get("end_time")),
        exit_code=_exit_code(row.get("exit_code")),
        restarts=int(_number(row.get("restart_cnt")) or 0),
        is_array=bool(
            _number(row.get("array_job_id"))
            or _number(row.get("het_job_id"))
            or row.get("array_task_string")
        ),
    )


def _node(row: Mapping[str, Any]) -> SlurmNode:
    states = {*_texts(row["state"]), *_texts(row.get("state_flags") or [])}
    free = _number(row["free_mem"] if "free_mem" in row else row.get("free_memory"))
    load = _number(row.get("cpu_load"))
    return SlurmNode(
        name=row["name"],
        cpus=int(row["cpus"]),
        sockets=int(row.get("sockets") or 1),
        memory_bytes=int(_number(row["real_memory"]) or 0) * MEBIBYTE,
        features=tuple(_texts(row.get("features") or [], upper=False)),
        partitions=tuple(row.get("partitions") or ()),
        states=frozenset(state.rstrip("*~#!%$@^-+") for state in states if state),
        cpu_load=None if load is None or "NOT_RESPONDING" in states else load / 100.0,
        free_bytes=None if not free else int(free) * MEBIBYTE,
        storage_bytes=int(_number(row.get("temporary_disk")) or 0) * MEBIBYTE,
    )


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def _texts(value: Any, *, upper: bool = True) -> list[str]:
    """Return a list of words, which old versions write with commas."""
    words = value.split(",") if isinstance(value, str) else value
    return [word.strip().upper() if upper else word.strip() for word in words if word.strip()]


def _number(value: Any) -> float | None:
    """Return a number; None if it is not set, or infinite."""
    if isinstance(value, Mapping):
        return value["number"] if value.get("set") and not value.get("infinite") else None
    return None if value is None else float(value)


def _moment(value: Any) -> float | None:
    return _number(value) or None


def _exit_code(value: Any) -> int | None:
    """Return the exit code of a wait status, or minus the signal; new versions give both."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        signal = value.get("signal") or {}
        number = _number(signal.get("id", signal.get("signal_id"))) or 0
        return -int(number) if number else int(_number(value.get("return_code")) or 0)
    status = int(value)
    return -(status & 0x7F) if status & 0x7F else status >> 8
