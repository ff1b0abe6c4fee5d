"""Server time of reads, measured in this process without any cache."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Project, User
from apps.workloads.models import Job
from benchmarks._reads import reads


@dataclass(frozen=True, slots=True)
class Timing:
    """Server time of one read by one caller, in milliseconds."""

    read: str
    caller: str
    status: int
    median_ms: float
    p95_ms: float
    statements: int
    worst_ms: float
    worst: str


def prepare(*, jobs: int, servers: int) -> None:
    """Create the tables and the reference data if the database has no jobs."""
    call_command("migrate", verbosity=0)
    if not Job.objects.exists():
        call_command("seed_demo", servers=servers, stdout=sys.stderr)
        call_command("load_reference", jobs=jobs, stdout=sys.stderr)


def timings(*, match: str, rounds: int) -> Iterator[Timing]:
    """Yield the timings of the reads whose name contains ``match``, by every caller."""
    for caller, client in _clients().items():
        for read in reads():
            if match in read.name:
                yield _timed(read.name, read.address, caller, client, rounds)


def _clients() -> dict[str, Client]:
    """Return signed-in clients: of an operator, and of a member of one project."""
    clients = {}
    for name, role in (("operator", Role.OPERATOR), ("member", Role.VIEWER)):
        user, _ = User.objects.get_or_create(username=f"bench-{name}", role=role.value)
        clients[name] = Client(SERVER_NAME="localhost")
        clients[name].force_login(user)
    project = Project.objects.filter(name__startswith="reference-").order_by("name")[0]
    Membership.objects.get_or_create(user=user, project=project)
    return clients


def _timed(name: str, address: str, caller: str, client: Client, rounds: int) -> Timing:
    times_ms: list[float] = []
    recorded: list[tuple[float, str]] = []
    status = client.get(address).status_code  # connects, compiles templates
    for _ in range(rounds):
        cache.clear()
        recorded.clear()
        with _recording(recorded):
            began = time.perf_counter()
            b"".join(client.get(address))
            times_ms.append(1e3 * (time.perf_counter() - began))
    worst_s, worst = max(recorded, default=(0.0, ""))
    median, p95 = np.percentile(times_ms, [50, 95])
    return Timing(
        name, caller, status, float(median), float(p95), len(recorded), 1e3 * worst_s, worst
    )


@contextmanager
def _recording(recorded: list[tuple[float, str]]) -> Iterator[None]:
    """Append (seconds, text) of each statement of the block."""

    def record(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            recorded.append((time.perf_counter() - began, " ".join(sql.split())))

    with connection.execute_wrapper(record):
        yield
