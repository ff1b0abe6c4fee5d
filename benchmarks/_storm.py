"""Everything at once: threads that use and disturb one installation at random.

Clients use the REST API in this process. Agents, emulators, sweeps, plans and pruning run as they
do in their processes, each on its own connection.
"""

import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from io import StringIO
from itertools import count
from threading import Event, Lock, Thread
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.core.management import call_command
from django.db import InterfaceError, OperationalError, connection
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.services import create_token, create_user, ensure_project
from apps.common.infrastructure.stop_signal import StopSignal
from apps.common.infrastructure.transactions import conflict_of
from apps.common.models import TransactionRetry
from apps.execution.backends.emulated.control_plane import DatabaseControlPlane, Hooks
from apps.execution.backends.emulated.emulator import Emulator
from apps.execution.backends.runner import Environment, run
from apps.execution.models import Launch
from apps.execution.services import launches, profiles, recovery
from apps.execution.services.migrations import (
    MigrationRequest,
    cancel_migrations,
    request_migrations,
)
from apps.execution.services.retention import execution_kinds
from apps.inventory.models import Server, ServerState
from apps.inventory.services import set_server_state, start_clock
from apps.operations.services.retention import operation_kinds, run_retention
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import MigrationPurpose, PlanCause, PlannedMigration
from apps.placement.models import Plan as PlanRow
from apps.placement.services.rebalancing.evaluation import evaluate_plan
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.plans import NewPlan, PlanSupersededError, write_plan
from apps.placement.services.retention import placement_kinds
from apps.scheduling.models import Allocation
from apps.scheduling.services.agent import make_agent
from apps.testbed.selectors.replay import check_findings, one_snapshot
from apps.workloads.core.lifecycle import TERMINAL_STATES
from apps.workloads.models import Job
from benchmarks._storm_report import StormReport

SERVERS: Final = 24
MAX_WAITING: Final = 400  # more would only lengthen the queue
MEASURES: Final = {"watts": 1.0, "diversity": 0.0, "crossing": 0, "servers_on": 1, "F": 0.1}
LIFE_S: Final = 4.0  # mean wall seconds until a thread that may die does


LAST_GRACE_S: Final = 1.0  # leases may expire after the last sweep


class Storm:
    """One storm on the database that Django is connected to, which must be empty.

    Parameters
    ----------
    seed : of all random choices; the threads interleave as they like
    """

    def __init__(self, *, seed: int) -> None:
        self.report = StormReport()
        self._seed, self._over, self._calm = seed, Event(), Event()
        self._lock, self._accepted, self._deleted = Lock(), set[UUID](), set[UUID]()
        self._changes = count()  # of jobs
        self._emulators: dict[str, Emulator] = {}
        _build_cluster()
        user = create_user(username="storm", password=None, role=Role.OPERATOR)
        self._project = ensure_project("default")
        self._secret = create_token(user=user, name="storm", role=None).secret
        self._user = user

    def run(self, seconds: float) -> StormReport:
        """Let it rage, then calm down, and check what is left."""
        actors = [
            *(self._every(0.2, self._submit) for _ in range(3)),
            *(self._every(0.3, self._change) for _ in range(2)),
            *(self._agent(f"agent-{i}") for i in range(2)),
            *(self._emulator(i) for i in range(2)),
            self._every(0.3, self._migrate),
            self._every(0.7, self._drain),
            self._every(0.5, self._plan),
            self._every(0.2, self._execute_plans),
            self._every(2.0, self._prune),
            *(self._every(0.4, self._recover) for _ in range(2)),
            self._every(0.3, self._infer),
            self._every(2.0, self._check),
        ]
        streams = np.random.default_rng(self._seed).spawn(len(actors))
        threads = [
            Thread(target=actor, args=(rng,), daemon=True)
            for actor, rng in zip(actors, streams, strict=True)
        ]
        for thread in threads:
            thread.start()
        self._over.wait(seconds)
        self._calm.set()
        self._settle(patience_s=60.0)
        self._over.set()
        for thread in threads:
            thread.join(30.0)
        self._check_end()
        return self.report

    # ---- actors ----

    def _every(
        self, mean_s: float, act: Callable[[np.random.Generator], None]
    ) -> Callable[[np.random.Generator], None]:
        """Return an actor that acts at random moments, until the storm is over."""

        def loop(rng: np.random.Generator) -> None:
            while not self._over.wait(float(rng.exponential(mean_s))):
                self._try(act.__name__.lstrip("_"), lambda: act(rng))
            connection.close()

        return loop

    def _try(self, name: str, act: Callable[[], object]) -> None:
        try:
            act()
        except (OperationalError, InterfaceError) as error:
            found = self.report.deadlocks if conflict_of(error) else self.report.errors
            found.append(f"{name}: {error}")
            connection.close()
        except Exception:  # noqa: BLE001 - every error is a finding
            self.report.errors.append(f"{name}: {traceback.format_exc()[-1500:]}")
            connection.close()
        self.report.done[name] += 1

    def _agent(self, name: str) -> Callable[[np.random.Generator], None]:
        def loop(rng: np.random.Generator) -> None:
            agent = make_agent(name)
            while not self._over.wait(float(rng.exponential(0.1))):
                self._try("agent", partial(agent.work, for_s=1.0))
                if rng.random() < 0.02:
                    agent = make_agent(name)  # as after a restart
            connection.close()

        return loop

    def _emulator(self, number: int) -> Callable[[np.random.Generator], None]:
        """Emulators, one after the other; each but the last dies without a word."""

        def loop(rng: np.random.Generator) -> None:
            life = 0
            while not self._over.is_set():
                life += 1
                name, death = f"emulator-{number}.{life}", _Death(self._over)
                if not self._calm.is_set():
                    death.at_s = time.monotonic() + float(rng.exponential(LIFE_S))
                self._try("emulator", partial(self._emulate, name, death))
                self._emulators.pop(name, None)
                connection.close()

        return loop

    def _emulate(self, name: str, death: "_Death") -> None:
        control_plane = DatabaseControlPlane(worker=name, hooks=_hooks())

        def create(wall_s: float) -> Emulator:
            control_plane.hold()
            self._emulators[name] = Emulator(control_plane, wall_s=wall_s)
            return self._emulators[name]

        away = (OperationalError, InterfaceError)
        run(create, Environment(time.time, away, connection.close, death))

    # ---- actions of clients ----

    def _client(self) -> APIClient:
        client = APIClient(SERVER_NAME="localhost")
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {self._secret}")
        return client

    def _request(self, method: str, url: str, body: Any = None) -> Any:
        answer = getattr(self._client(), method)(f"/api/v1{url}", body, format="json")
        self.report.answers[answer.status_code] += 1
        if answer.status_code >= 500:
            self.report.deadlocks.append(
                f"{method} {url}: {answer.status_code} {answer.content!r}"
            )
        return answer

    def _submit(self, rng: np.random.Generator) -> None:
        """One job, or a batch of new applications in random order."""
        waiting = Job.objects.filter(state__in=["submitted", "profiling", "queued"]).count()
        if self._calm.is_set() or waiting > MAX_WAITING:
            return
        base = int(time.monotonic() * 2)  # the same names at the same time
        names = [f"app-{base + int(i)}" for i in rng.permutation(20)[: int(rng.integers(1, 20))]]
        specs = [_spec(name, rng) for name in names]
        if rng.random() < 0.5:
            answer = self._request("post", "/jobs/", specs[0])
            ids = [answer.json()["metadata"]["id"]] if answer.status_code == 201 else []
        else:
            answer = self._request("post", "/batches/", {"items": specs})
            ids = _ids_of_batch(answer)
        with self._lock:
            self._accepted |= {UUID(key) for key in ids}

    def _change(self, rng: np.random.Generator) -> None:
        """Cancel, hold, change or delete some job."""
        job = Job.objects.order_by("?").values_list("id", "state").first()
        if job is None:
            return
        key, state = job
        if state in TERMINAL_STATES:
            if rng.random() < 0.5 and self._request("delete", f"/jobs/{key}/").status_code == 204:
                with self._lock:
                    self._deleted.add(key)
        elif rng.random() < 0.4:
            self._request("post", f"/jobs/{key}/cancel/")
        else:
            self._update(key, rng)

    def _update(self, key: UUID, rng: np.random.Generator) -> None:
        """Change the label of a job, and sometimes its priority; equal values write nothing."""
        body: dict[str, Any] = {"metadata": {"labels": {"change": str(next(self._changes))}}}
        if rng.random() < 0.3:
            body["spec"] = {"priority": int(rng.integers(-100, 101))}
        self._request("patch", f"/jobs/{key}/", body)

    # ---- actions of the installation ----

    def _migrate(self, rng: np.random.Generator) -> None:
        wishes = [
            MigrationRequest(job, key, _other_server(rng), "storm")
            for key, job in _live_allocations(int(rng.integers(1, 6)))
        ]
        made = [getattr(x, "migration_id", None) for x in request_migrations(wishes)]
        if rng.random() < 0.3:
            cancel_migrations([x for x in made if x is not None])

    def _drain(self, rng: np.random.Generator) -> None:
        server = _other_server(rng)
        states = [ServerState.ACTIVE, ServerState.DRAINING, ServerState.DOWN, ServerState.CORDONED]
        state = states[int(rng.choice(4, p=[0.6, 0.15, 0.1, 0.15]))]
        set_server_state(
            server_id=server, state=ServerState.ACTIVE if self._calm.is_set() else state
        )

    def _plan(self, rng: np.random.Generator) -> None:
        """Write a plan of some migrations, or cancel one."""
        if rng.random() < 0.3:
            unfinished = PlanRow.objects.filter(state__in=[PlanState.APPROVED, PlanState.RUNNING])
            for key in unfinished.values_list("pk", flat=True)[:1]:
                self._request("post", f"/plans/{key}/cancel/")
            return
        moves = [
            _planned(place, key, job, rng)
            for place, (key, job) in enumerate(_live_allocations(int(rng.integers(1, 8))))
        ]
        if moves and not self._calm.is_set():
            with suppress(PlanSupersededError):  # other clients deleted all of its jobs
                write_plan(_new_plan(moves, self._user.pk), approve=True)

    def _execute_plans(self, _: np.random.Generator) -> None:
        for key in execute_plans():
            evaluate_plan(key, measure=lambda *_: (MEASURES, MEASURES))

    def _prune(self, _: np.random.Generator) -> None:
        run_retention([*operation_kinds(), *execution_kinds(), *placement_kinds()])

    def _recover(self, _: np.random.Generator) -> None:
        recovery.sweep()

    def _infer(self, _: np.random.Generator) -> None:
        profiles.infer_profiles()

    # ---- what must hold ----

    def _check(self, _: np.random.Generator) -> None:
        with one_snapshot():
            findings = check_findings(grace_s=60.0)
        self._note(findings)

    def _note(self, findings: Sequence[Any]) -> None:
        self.report.violations += [
            f"{x.check}: {x.violations} times, e.g. {'; '.join(x.examples)}"
            for x in findings
            if x.violations
        ]

    def _settle(self, *, patience_s: float) -> None:
        """Cancel what is left, and wait until all jobs have ended."""
        until_s = time.monotonic() + patience_s
        while time.monotonic() < until_s:
            live = Job.objects.exclude(state__in=TERMINAL_STATES)
            for key in live.filter(cancel_requested=False).values_list("id", flat=True)[:500]:
                self._request("post", f"/jobs/{key}/cancel/")
            if not live.exists():
                return
            self._over.wait(0.5)

    def _check_end(self) -> None:
        """Check the tables against what the clients know, and against the emulators.

        A last sweep recovers the leases of emulators that died shortly before.
        """
        recovery.sweep()
        self._note(check_findings(grace_s=LAST_GRACE_S))
        states = Counter(Job.objects.values_list("state", flat=True))
        self.report.states = dict(states)
        self.report.retries = dict(TransactionRetry.objects.values_list("sqlstate", "retries"))
        stored = set(Job.objects.values_list("id", flat=True))
        if lost := self._accepted - self._deleted - stored:
            self.report.violations.append(f"{len(lost)} accepted jobs are lost")
        if open_jobs := sum(n for state, n in states.items() if state not in TERMINAL_STATES):
            self.report.violations.append(f"{open_jobs} jobs have not ended: {dict(states)}")
        if running := Launch.objects.exclude(state="ended").count():
            self.report.violations.append(f"{running} launches have not ended")


class _Death(StopSignal):
    """The stop signal of an emulator that dies at some moment, or when the storm is over."""

    at_s = float("inf")

    def __init__(self, over: Event) -> None:
        super().__init__()
        self._over = over

    def is_set(self) -> bool:
        return self._over.is_set() or time.monotonic() >= self.at_s

    def wait(self, timeout_s: float) -> bool:
        self._over.wait(timeout_s)
        return self.is_set()


def _hooks() -> Hooks:
    return Hooks(
        request_launches=lambda backend, limit: launches.request_launches(backend, limit=limit),
        release_jobs=launches.release_jobs,
        record_measurements=profiles.record_measurements,
    )


def _build_cluster() -> None:
    call_command("seed_demo", "--servers", str(SERVERS), stdout=StringIO())
    start_clock(speed=60.0)


def _spec(application: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return a job that is short enough to run without a profile."""
    return {
        "application": application,
        "target": {"kind": "best_effort"},
        "duration_seconds": float(rng.choice([5.0, 20.0, 600.0], p=[0.6, 0.3, 0.1])),
        "units": int(rng.integers(1, 4)),
    }


def _ids_of_batch(answer: Any) -> list[str]:
    if answer.status_code not in {200, 201, 202, 207}:
        return []
    batch = answer.json().get("id")
    return [str(key) for key in Job.objects.filter(batch=batch).values_list("id", flat=True)]


def _live_allocations(number: int) -> list[tuple[int, UUID]]:
    live = Allocation.objects.filter(released_seq=None, job__state="running", moved_from=None)
    return list(live.order_by("?").values_list("id", "job_id")[:number])


def _other_server(rng: np.random.Generator) -> int:
    keys = Server.objects.order_by("id").values_list("id", flat=True)
    return int(rng.choice(list(keys)))


def _planned(place: int, allocation: int, job: UUID, rng: np.random.Generator) -> PlannedMigration:
    held = Allocation.objects.get(pk=allocation)
    return PlannedMigration(
        ordinal=place, bundle=place, purpose=MigrationPurpose.EMPTY, about="storm", job_id=job,
        allocation_id=allocation, from_server_id=held.server_id,
        to_server_id=_other_server(rng), units=held.cores, gain=0.05, predicted_s=2.0,
    )  # fmt: skip


def _new_plan(moves: Sequence[PlannedMigration], by: UUID) -> NewPlan:
    return NewPlan(
        cause=PlanCause.REVERSE, weights={"P": 1.0}, activation=None, migrations=moves,
        predicted={"before": MEASURES, "after": MEASURES, "moves": len(moves)}, gap=0.0, gain=0.1,
        seconds=0.0, snapshot=0, cluster_s=0.0, created_by=by,
    )  # fmt: skip
