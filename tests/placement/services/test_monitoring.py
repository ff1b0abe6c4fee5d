"""Container classes follow the telemetry."""

from typing import Any

import pytest

from apps.inventory.models import Server
from apps.placement.core.monitoring.metrics import container_metrics
from apps.placement.core.problem.instance import Communication
from apps.placement.models import ContainerClass, MetricThreshold
from apps.placement.services import monitoring
from apps.placement.services.monitoring import RETENTION_S, prune_classes, refresh_classes
from apps.placement.tasks.fronts import prune as prune_task
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from apps.workloads.services import delete_job
from tests import factories

pytestmark = pytest.mark.django_db
LOUD, QUIET = 2e7, 1e5


@pytest.fixture
def servers() -> list[Server]:
    factories.cluster(seen_cluster_s=7200.0)
    kind = factories.platform("J", cores=4)
    return [factories.server(f"s{i}", of=kind) for i in range(3)]


def running() -> Job:
    application = factories.application()
    factories.profile(application)
    return factories.job(state="running", application=application, started_s=3600.0)


def report(job: Job, at_s: float, memory: float, *, traffic: float = 0.0) -> None:
    factories.sample(
        job, at_s, memory_rate=memory, network_wait=0.0, disk_wait=0.0, traffic_bps=traffic
    )


def set_threshold(value: float) -> None:
    """A memory threshold; the other metrics have none."""
    platform = Server.objects.get(name="s0").platform
    for metric, level in enumerate((value, float("inf"), float("inf"))):
        MetricThreshold.objects.create(
            platform=platform,
            metric=metric,
            value=level,
            accuracy=1.0,
            readings=9,
            learnt_s=7000.0,
        )


def class_of(held: Allocation) -> ContainerClass:
    return ContainerClass.objects.get(allocation_id=held.id)


def test_a_container_above_the_threshold_of_its_platform_is_a_taz(
    servers: list[Server],
) -> None:
    set_threshold(6e6)
    job = running()
    big = factories.allocation(job, servers[0], cores=2)
    small = factories.allocation(job, servers[1], cores=1)
    report(job, 7000.0, 1.6e7)  # per unit: 8e6 and 4e6 per container
    assert refresh_classes(7200.0) == 2
    assert class_of(big).intensity == pytest.approx(0.5 * 8 / 6)
    assert class_of(big).is_taz
    assert class_of(small).intensity == pytest.approx(0.5 * 4 / 6)
    assert not class_of(small).is_taz


def test_a_container_of_a_job_deleted_meanwhile_gets_no_class(
    servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_threshold(6e6)
    jobs = [running(), running()]
    held = [factories.allocation(job, servers[0], cores=1) for job in jobs]
    for job in jobs:
        report(job, 7000.0, 1.6e7)

    def container_metrics_meanwhile(*about: Any) -> Any:
        Job.objects.filter(pk=jobs[0].pk).update(state="succeeded", finished_s=7200.0)
        delete_job(jobs[0].pk)
        return container_metrics(*about)

    monkeypatch.setattr(monitoring, "container_metrics", container_metrics_meanwhile)
    refresh_classes(7200.0)
    assert [row.allocation_id for row in ContainerClass.objects.all()] == [held[1].id]


def test_a_null_counter_drops_one_metric_and_the_profile_predicts_it(
    servers: list[Server],
) -> None:
    set_threshold(4e6)
    MetricThreshold.objects.filter(metric=2).update(value=0.2)
    waits = running()
    held = factories.allocation(waits, servers[0], cores=4)
    factories.sample(waits, 7000.0, disk_wait=0.3)  # no counter of memory, no reading of sockets
    assert refresh_classes(7200.0) == 1
    found = class_of(held)
    assert found.intensity is not None
    assert found.intensity >= 0.5 * 0.3 / 0.2 - 1e-9
    assert found.is_taz


def command() -> Job:
    """A running job of an application that was never profiled."""
    return factories.job(state="running", application=factories.application(), started_s=3600.0)


def test_a_container_without_a_profile_has_the_class_of_what_is_read(
    servers: list[Server],
) -> None:
    set_threshold(4e6)
    MetricThreshold.objects.filter(metric=2).update(value=0.2)
    waits, calm = command(), command()
    of_waits, of_calm = (
        factories.allocation(job, server, cores=4)
        for job, server in zip((waits, calm), servers, strict=False)
    )
    factories.sample(waits, 7000.0, disk_wait=0.3, network_wait=0.0)
    factories.sample(calm, 7000.0, disk_wait=0.1, network_wait=0.0)
    assert refresh_classes(7200.0) == 2
    assert class_of(of_waits).intensity == pytest.approx(0.5 * 0.3 / 0.2)
    assert class_of(of_waits).is_taz
    assert class_of(of_calm).intensity == pytest.approx(0.5 * 0.1 / 0.2)
    assert not class_of(of_calm).is_taz


def test_without_any_profile_there_is_no_threshold_and_so_no_class(servers: list[Server]) -> None:
    waits = command()
    factories.allocation(waits, servers[0], cores=4)
    factories.sample(waits, 7000.0, disk_wait=0.9)
    refresh_classes(7200.0)
    assert not ContainerClass.objects.exists()


def test_thresholds_that_other_containers_taught_class_a_command(servers: list[Server]) -> None:
    waits = command()
    held = factories.allocation(waits, servers[1], cores=4)
    factories.sample(waits, 7000.0, disk_wait=0.9, network_wait=0.0)
    profiled = running()
    factories.allocation(profiled, servers[0], cores=4)
    factories.sample(profiled, 7000.0, disk_wait=0.5, network_wait=0.0)
    refresh_classes(7200.0)
    taught = MetricThreshold.objects.get(metric=2)
    assert taught.readings == 1
    assert class_of(held).intensity == pytest.approx(min(0.5 * 0.9 / taught.value, 1.0))


def test_a_sample_counts_once(servers: list[Server]) -> None:
    set_threshold(4e6)
    job = running()
    factories.allocation(job, servers[0])
    report(job, 7000.0, LOUD)
    assert (refresh_classes(7200.0), refresh_classes(7201.0)) == (1, 0)
    report(job, 7100.0, LOUD)
    assert refresh_classes(7202.0) == 1


def test_a_phase_that_lasts_changes_the_class_and_a_flicker_does_not(
    servers: list[Server],
) -> None:
    set_threshold(4e6)
    job = running()
    held = factories.allocation(job, servers[0])
    report(job, 7000.0, LOUD)
    refresh_classes(7000.0)
    report(job, 7005.0, QUIET)
    refresh_classes(7005.0)
    assert class_of(held).is_taz
    report(job, 7300.0, QUIET)
    refresh_classes(7300.0)
    assert not class_of(held).is_taz


def test_a_migrated_container_keeps_its_class(servers: list[Server]) -> None:
    set_threshold(4e6)
    job = running()
    before = factories.allocation(job, servers[0])
    report(job, 7000.0, LOUD)
    refresh_classes(7000.0)
    Allocation.objects.filter(pk=before.pk).update(released_seq=10**9, released_s=7001.0)
    after = factories.allocation(job, servers[1], moved_from=before.id, moved_s=7001.0)
    report(job, 7010.0, QUIET)
    refresh_classes(7010.0)
    assert class_of(after).is_taz
    was, now = class_of(before).intensity, class_of(after).intensity
    assert was is not None
    assert now is not None
    assert now < was


def test_a_job_with_much_traffic_has_a_communication_class(servers: list[Server]) -> None:
    set_threshold(4e6)
    talks, alone, quiet = running(), running(), running()
    for job in (talks, quiet):
        for server in servers[:2]:
            factories.allocation(job, server)
    factories.allocation(alone, servers[2])
    for job, traffic in ((talks, 1e8), (alone, 1e8), (quiet, 1e6)):
        report(job, 7000.0, QUIET, traffic=traffic)  # 5 % of 1e9 bits/s are 5e7
    refresh_classes(7200.0)
    wishes = {
        job: set(ContainerClass.objects.filter(job=job).values_list("communication", flat=True))
        for job in (talks, alone, quiet)
    }
    assert wishes == {talks: {Communication.NODE}, alone: {0}, quiet: {0}}


def test_thresholds_are_refitted_at_an_interval(servers: list[Server]) -> None:
    job = running()
    factories.allocation(job, servers[0])
    report(job, 7000.0, LOUD)
    refresh_classes(7200.0)
    assert MetricThreshold.objects.count() == 3
    report(job, 7300.0, LOUD)
    refresh_classes(7300.0)
    assert set(MetricThreshold.objects.values_list("learnt_s", flat=True)) == {7200.0}
    report(job, 7900.0, LOUD)
    refresh_classes(7900.0)
    assert set(MetricThreshold.objects.values_list("learnt_s", flat=True)) == {7900.0}


def test_a_job_without_samples_has_no_class(servers: list[Server]) -> None:
    factories.allocation(running(), servers[0])
    silent = running()
    factories.allocation(silent, servers[1])
    factories.sample(silent, 7000.0)
    assert refresh_classes(7200.0) == 0
    assert not ContainerClass.objects.exists()


def test_classes_of_ended_containers_are_pruned(servers: list[Server]) -> None:
    job = running()
    held = factories.allocation(job, servers[0])
    released = factories.allocation(job, servers[1], released_seq=10**9)
    for row in (held, released):
        ContainerClass.objects.create(allocation_id=row.id, job=job, read_s=10.0, intensity=0.1)
    assert prune_classes(RETENTION_S + 5.0) == 0
    assert prune_classes(RETENTION_S + 15.0) == 1
    assert ContainerClass.objects.get().allocation_id == held.id


def test_the_prune_task_prunes_container_classes(servers: list[Server]) -> None:
    job = running()
    released = factories.allocation(job, servers[1], released_seq=10**9)
    ContainerClass.objects.create(allocation_id=released.id, job=job, read_s=10.0, intensity=0.1)
    factories.cluster(seen_cluster_s=RETENTION_S + 100.0)
    prune_task()
    assert not ContainerClass.objects.exists()
