"""The emulated backend for its contract: an emulator whose ticks the test numbers."""

from datetime import timedelta

from django.utils import timezone

from apps.execution.backends.emulated.emulator import Emulator
from apps.execution.models import JobSample, Launch
from apps.execution.services.launches import request_launches
from apps.inventory.models import ServerState
from apps.inventory.services import set_server_state
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import commit
from apps.workloads.models import Job
from tests import factories
from tests.contracts.execution.worlds import BackendWorld, server_of
from tests.execution.emulated_plane import ALWAYS
from tests.execution.migration_world import HOOKS, SPEED, SteadyPlane, cluster, holding
from tests.scheduling.world import ME, claimed, proposal

_DURATION_S = 36_000.0  # of cluster time
_NOWHERE = 999_999


class EmulatedWorld(BackendWorld):
    """Two servers of four units, at 60 cluster seconds a second."""

    name = "emulated"

    def __init__(self) -> None:
        cluster("a", "b")
        self._wall_s, self._left_s, self._processes = 0.0, 0.0, 0
        self._emulator: Emulator | None = None
        self.start()

    def begin(self) -> Job:
        return self.until_state(self._placed(), "running")

    def finish(self, job: Job) -> None:
        self._left_s += _DURATION_S / SPEED
        if self._emulator is not None:
            self._pass_time()

    def begin_refused(self) -> Job:
        job = self._placed()
        assert request_launches(self.name, limit=1) == 1
        Launch.objects.filter(job=job).update(order={"parts": [[_NOWHERE, 1]]})
        return job

    def place_again(self, job: Job) -> None:
        self.until_state(job, "queued")
        until = timezone.now() + timedelta(seconds=10)
        Job.objects.filter(pk=job.pk).update(claimed_by=ME.name, claimed_until=until)
        commit([proposal(job, read_copy().topology, [0])], agent=ME)

    def turn(self) -> None:
        assert self._emulator is not None
        self._wall_s += 0.1
        self._emulator.tick(self._wall_s)

    def stop(self) -> None:
        self._emulator = None

    def start(self) -> None:
        self._processes += 1
        plane = holding(SteadyPlane(worker=f"emulator-{self._processes}", hooks=HOOKS))
        self._emulator = Emulator(plane, wall_s=self._wall_s, pace=ALWAYS)
        self._pass_time()  # emulated jobs stand still while their emulator is away

    def starts(self, job: Job) -> int:
        return sum(self._used().values())  # one unit for each start

    def runs_on(self, job: Job) -> set[str]:
        return {name for name, units in self._used().items() if units}

    def is_stopped(self, job: Job) -> bool:
        return False

    def has_usage(self, job: Job) -> bool:
        return JobSample.objects.filter(job=job, cpu_share__gt=0.0).exists()

    def lose_server(self, job: Job) -> None:
        set_server_state(server_id=server_of(job).pk, state=ServerState.DOWN)

    def _placed(self) -> Job:
        job = claimed(
            application=factories.application(), input_bytes=10**15, duration_s=_DURATION_S
        )
        commit([proposal(job, read_copy().topology, [0])], agent=ME)
        return job

    def _pass_time(self) -> None:
        self._wall_s += self._left_s
        self._left_s = 0.0

    def _used(self) -> dict[str, int]:
        """Return the units that the emulated servers hold."""
        assert self._emulator is not None
        return dict(zip("ab", self._emulator._engine.used_units.tolist(), strict=True))
