"""Reads of agents, and of the output of commands."""

from typing import NamedTuple

from django.db.models import QuerySet

from apps.common.infrastructure.database import fetch_rows
from apps.execution.models import ServerAgent
from apps.workloads.models import Job


def agents() -> QuerySet[ServerAgent]:
    """Return all agents, by name."""
    return ServerAgent.objects.order_by("name")


class Output(NamedTuple):
    """A part of an output stream.

    Attributes
    ----------
    attempt : number of the launch that wrote it; 0 if the job has not been launched
    start : position of the first byte, which may be after the one requested: old output is deleted
    """

    attempt: int
    start: int
    data: bytes

    @property
    def text(self) -> str:
        """The data as text; other bytes are replaced."""
        return self.data.decode(errors="replace")

    @property
    def end(self) -> int:
        """Position after the last byte."""
        return self.start + len(self.data)


_CHUNKS = """
SELECT o.start, o.data FROM execution_outputchunk o
WHERE o.launch_id = %s AND o.stream = %s AND o.start + length(o.data) > %s
ORDER BY o.start LIMIT %s
"""
_CHUNKS_READ = 64


_LAST_LAUNCH = """
SELECT id, attempt FROM execution_launch WHERE job_id = %s ORDER BY attempt DESC LIMIT 1
"""
_END = """
SELECT o.start + length(o.data) FROM execution_outputchunk o
WHERE o.launch_id = %s AND o.stream = %s ORDER BY o.start DESC LIMIT 1
"""


def output_tail(job: Job, stream: str, *, limit: int) -> Output:
    """Return the last output of the last launch of a job, at most `limit` bytes."""
    end = [
        end
        for launch, _ in fetch_rows(_LAST_LAUNCH, [job.pk])
        for (end,) in fetch_rows(_END, [launch, stream])
    ]
    return output(job, stream, start=max(0, end[0] - limit) if end else 0, limit=limit)


def output(job: Job, stream: str, *, start: int, limit: int) -> Output:
    """Return the output of the last launch of a job from a position on, at most `limit` bytes."""
    launches = fetch_rows(_LAST_LAUNCH, [job.pk])
    if not launches:
        return Output(0, start, b"")
    ((launch, attempt),) = launches
    data, position = bytearray(), start
    for at, chunk in fetch_rows(_CHUNKS, [launch, stream, start, _CHUNKS_READ]):
        if at > position and not data:
            position = start = at
        if at > position:
            break  # a chunk between them is missing: the next read begins after it
        data += bytes(chunk)[position - at :]
        position = start + len(data)
        if len(data) >= limit:
            break
    return Output(attempt, start, bytes(data[:limit]))
