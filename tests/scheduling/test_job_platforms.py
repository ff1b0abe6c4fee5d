"""Jobs get units on the platforms that their constraints allow, and on no others."""

import pytest

from apps.inventory.core.cluster_file import parse_cluster
from apps.inventory.core.snapshot import Topology
from apps.inventory.models import Server, ServerState
from apps.inventory.services import import_cluster, set_server_state
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import commit
from apps.scheduling.services.agent import make_agent
from apps.workloads.models import Application, Job
from tests import factories
from tests.scheduling.world import ME, SIZES, claimed, proposal, waiting, work

pytestmark = pytest.mark.django_db
ONLY_A = {"platforms": ["A"]}


@pytest.fixture(autouse=True)
def two_platforms(db: None) -> Topology:
    """A server of each of two platforms, with four units each."""
    factories.cluster(seen_cluster_s=3000.0)
    kinds = [{"name": n, "cores": 4, "idle_watts": 50, "peak_watts": 200, **SIZES} for n in "JA"]
    servers = [{"name": f"{n.lower()}1", "platform": n, "rack": f"r{n}"} for n in "JA"]
    import_cluster(parse_cluster({"name": "small", "platforms": kinds, "servers": servers}))
    return read_copy().topology


def known_on_both() -> Application:
    application = factories.application()
    factories.profile(application, platforms=("J", "A"))
    return application


def servers_of(*jobs: Job) -> set[str]:
    ids = Allocation.objects.filter(job__in=jobs).values_list("server_id", flat=True)
    return set(Server.objects.filter(id__in=[*ids]).values_list("name", flat=True))


@pytest.mark.parametrize(
    "policy", ["expected", "tarcil", "quasar", "least_loaded", "paragon_greedy", "random"]
)
def test_a_best_effort_job_without_a_size_runs_where_it_may(policy: str) -> None:
    of, target = known_on_both(), {"kind": "best_effort"}
    jobs = [
        waiting(of, target=target, gang=False, policy=policy, constraints=ONLY_A) for _ in range(4)
    ]
    work(make_agent("agent-1"))
    assert servers_of(*jobs) == {"a1"}


def test_units_are_added_only_where_the_job_may_run(two_platforms: Topology) -> None:
    """Its target cannot be met any more, as the only server that it may use is closed."""
    server = two_platforms.server_name.index("a1")
    first = int(two_platforms.server_first_unit[server])
    commit([proposal(claimed(), two_platforms, (first, first + 1, first + 2))], agent=ME)
    target = {"kind": "completion_time", "seconds": 100.0}
    job = waiting(
        known_on_both(), target=target, input_bytes=34 * 10**9, gang=False, constraints=ONLY_A
    )
    agent = make_agent("agent-1")
    work(agent)
    job.refresh_from_db()
    assert (job.units, job.units_missing > 0) == (1, True)
    closed = Server.objects.get(name="a1")
    set_server_state(server_id=closed.id, state=ServerState.CORDONED)
    Job.objects.update(claimed_until=None)
    work(agent)
    assert servers_of(job) == {"a1"}
