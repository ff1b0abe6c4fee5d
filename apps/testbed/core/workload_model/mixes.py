"""The papers' workloads as models.

Numbers, programs and times between arrivals are the papers'. Paragon (TOCS 2013) §5, Quasar
(ASPLOS 2014) §5, Tarcil (SoCC 2015) §6, ClavisMO (SC '15) §4.3 and §4.4. The papers do not state
how long their programs run and how many cores they use; those sizes are ours and are noted.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from apps.emulation.core.draws import ANALYTICS, BATCH, LATENCY_CRITICAL, SINGLE_NODE
from apps.testbed.core.arrivals import Poisson, Process, Regular
from apps.testbed.core.container_replay import ContainerJob
from apps.testbed.core.scenarios import india, parapluie
from apps.testbed.core.workload_model.distributions import Continuous, Discrete, Distribution
from apps.testbed.core.workload_model.model import JobClass, JobStream, WorkloadModel

HOUR_S: Final = 3600.0
OWN_SIZES: Final = "The paper states neither run times nor cores of its programs; they are ours."
NO_PHASES: Final = "The paper's memory load of a job changes twice; here a job keeps its kind."
EVENLY: Final = Regular()


def _lognormal(median: float, sigma: float, low: float, high: float) -> Distribution:
    return Continuous("lognormal", sigma, median, low, high)


def _fixed(*values: float) -> Distribution:
    return Discrete(values, (1.0,) * len(values))


def _one(name: str, kind: str, applications: int, minutes: float, units: Sequence[float],
         weight: float = 1.0) -> JobClass:  # fmt: skip
    """Rigid jobs whose work has a median of so many minutes on one unit."""
    work = _lognormal(60.0 * minutes, 0.6, 6.0 * minutes, 600.0 * minutes)
    return JobClass(name, kind, weight, {"work_s": work, "units": _fixed(*units)}, applications)


def _analytics(name: str, applications: int, weight: float = 1.0) -> JobClass:
    """Jobs of tasks with a completion time as target; sizing gives their units."""
    quantities = {
        "work_s": _lognormal(3e4, 1.0, 1e3, 1e6),
        "tasks": _fixed(32, 64, 128, 256),
        "target_s": _lognormal(3600.0, 0.5, 900.0, 6 * HOUR_S),
    }
    return JobClass(name, ANALYTICS, weight, quantities, applications, has_target=1.0)


def _service(name: str, units: Sequence[float], hours: float, weight: float = 1.0) -> JobClass:
    quantities = {"seconds": _fixed(hours * HOUR_S), "units": _fixed(*units)}
    return JobClass(name, LATENCY_CRITICAL, weight, quantities)


def _spark(name: str, task_s: float) -> JobClass:
    """Jobs of 20 short tasks (Tarcil §6.2.2)."""
    quantities = {
        "work_s": _fixed(20.0 * task_s), "tasks": _fixed(20.0), "units": _fixed(20.0),
    }  # fmt: skip
    return JobClass(name, ANALYTICS, 1.0, quantities)


def _stream(jobs: int, every_s: float, classes: Sequence[JobClass], process: Process = EVENLY,
            start_s: float = 0.0) -> JobStream:  # fmt: skip
    return JobStream(jobs, jobs * every_s, process, tuple(classes), start_s)


# 29 single-threaded, 22 multithreaded, 350 multiprogrammed and 25 I/O-bound programs (§5)
PARAGON: Final = (
    _one("single-threaded", SINGLE_NODE, 29, 10.0, (1,), 29.0),
    _one("multithreaded", SINGLE_NODE, 22, 40.0, (2, 4, 8), 22.0),
    _one("multiprogrammed", SINGLE_NODE, 350, 40.0, (4,), 350.0),
    _one("io-bound", BATCH, 25, 20.0, (2, 4), 25.0),
)
SINGLES: Final = (
    _one("single-node", SINGLE_NODE, 51, 20.0, (1, 2, 4), 51.0),
    _one("multiprogrammed", SINGLE_NODE, 350, 40.0, (4,), 350.0),
)
FRAMEWORKS: Final = (
    _analytics("hadoop", 16, 16.0), _analytics("storm", 4, 4.0), _analytics("spark", 4, 4.0),
)  # fmt: skip


def _mix(name: str, source: str, *streams: JobStream, notes: Sequence[str] = ()) -> WorkloadModel:
    return WorkloadModel(name, source, streams, (OWN_SIZES, *notes))


def _container_day(name: str, source: str, jobs: Sequence[ContainerJob]) -> WorkloadModel:
    """Jobs of containers as jobs of units."""
    return WorkloadModel(
        name,
        source,
        tuple(_stream(1, 60.0, [_rigid(job)], start_s=job.at_s) for job in jobs),
        ("Containers are units; the programs' slowdowns are in berth reproduce clavismo only.",),
    )


def _rigid(job: ContainerJob) -> JobClass:
    quantities = {
        "work_s": _fixed(job.size * job.work_s),
        "units": _fixed(job.size),
        "tasks": _fixed(job.size),
    }
    return JobClass(job.key.lower(), BATCH, 1.0, quantities)


MIXES: Final[Mapping[str, WorkloadModel]] = MappingProxyType(
    {
        mix.name: mix
        for mix in (
            _mix("paragon-low", "Paragon §5, 40 servers", _stream(178, 10.0, PARAGON)),
            _mix("paragon-medium", "Paragon §5, 40 servers",
                 _stream(178, 10.0, PARAGON, Regular(0.1))),
            _mix("paragon-phases", "Paragon §5, 40 servers, high load",
                 _stream(178, 10.0, PARAGON), notes=(NO_PHASES,)),
            _mix("paragon-oversubscribed", "Paragon §5, 40 servers",
                 _stream(178, 1.0, PARAGON)),
            _mix("quasar-single-batch", "Quasar §5, 40 servers",
                 _stream(10, 2 * HOUR_S, [_analytics("mahout", 10)]),
                 notes=("The paper runs one job after the other; here one arrives every two "
                        "hours.",)),
            _mix("quasar-batch", "Quasar §5, 40 servers",
                 _stream(24, 5.0, FRAMEWORKS), _stream(401, 1.0, SINGLES),
                 notes=("Best-effort jobs run at the same priority.",)),
            _mix("quasar-web-flat", "Quasar §5, HotCRP, flat traffic",
                 _stream(8, 1.0, [_service("hotcrp", (4, 8), 8.0)]),
                 _stream(800, 10.0, SINGLES)),
            _mix("quasar-web-fluctuating", "Quasar §5, HotCRP, fluctuating traffic",
                 _stream(8, HOUR_S, [_service("hotcrp", (4, 8), 2.0)]),
                 _stream(800, 10.0, SINGLES),
                 notes=("Traffic changes as instances arrive and end.",)),
            _mix("quasar-web-spike", "Quasar §5, HotCRP, large spike",
                 _stream(4, 1.0, [_service("hotcrp", (4, 8), 8.0)]),
                 _stream(8, 1.0, [_service("hotcrp-spike", (4, 8), 1.0)], start_s=3 * HOUR_S),
                 _stream(800, 10.0, SINGLES)),
            _mix("quasar-stateful", "Quasar §5, memcached and Cassandra, 24 hours",
                 _stream(16, 1.0, [_service("memcached", (8,), 24.0)]),
                 _stream(6, 1.0, [_service("cassandra", (8,), 24.0)]),
                 _stream(8_640, 10.0, SINGLES)),
            _mix("quasar-cloud", "Quasar §5, 200 servers of EC2",
                 _stream(1_200, 1.0, (_analytics("analytics", 24, 400.0),
                                      _service("service", (2, 4), 1.0, 400.0),
                                      _one("single", SINGLE_NODE, 80, 20.0, (1, 2, 4), 400.0)))),
            _mix("tarcil-short", "Tarcil §6.2.2, 100 workers, short Spark jobs",
                 _stream(300_000, 0.003, [_spark("spark", 0.1)], Poisson())),
            _mix("tarcil-resident", "Tarcil §6.2.2, short Spark jobs next to memcached",
                 _stream(80, 0.1, [_service("memcached", (4,), 0.5)]),
                 _stream(300_000, 0.003, [_spark("spark", 0.1)], Poisson(), start_s=60.0),
                 notes=("80 instances of four units are about 40 % of 100 servers of eight "
                        "cores.",)),
            _mix("tarcil-large", "Tarcil §6.3, 400 servers of EC2",
                 _stream(7_200, 1.0, (_spark("spark", 5.0), _analytics("hadoop", 20),
                                      _one("storm", ANALYTICS, 10, 60.0, (2, 4, 8)),
                                      _service("memcached", (4, 8), 2.0, 0.5),
                                      _service("cassandra", (4, 8), 2.0, 0.5),
                                      _one("single", SINGLE_NODE, 50, 20.0, (1, 2, 4))))),
            _container_day("clavismo-parapluie", "ClavisMO §4.3, four stages of six hours",
                           parapluie(None, 1)),
            _container_day("clavismo-india", "ClavisMO §4.4, stages of Hadoop jobs",
                           india(None, 1)),
        )
    }
)  # fmt: skip
