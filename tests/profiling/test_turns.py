"""Backends claim profiling runs of every project in turn."""

from datetime import timedelta

import pytest
from django.db import transaction

from apps.accounts.models import Project
from apps.profiling.models import NO_PROJECT, ProfilingRun
from apps.profiling.services import claim_runs, request_run, request_runs
from apps.workloads.models import Application
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _cluster(db: None) -> None:
    factories.cluster(seen_cluster_s=500.0)
    factories.server()


def waiting(project: Project, number: int) -> None:
    """Request runs of new applications, each with a job of the project, one after the other."""
    for i in range(number):
        application = factories.application(f"{project.name}-{i}")
        factories.job(application=application, project=project)
        request(application)


def request(application: Application) -> None:
    with transaction.atomic():
        request_runs([application.id])


def claimed(limit: int) -> list[str]:
    return [run.application for run in claim_runs("e", limit=limit, lease_s=60.0, at_s=500.0)]


def test_a_project_with_many_unknown_applications_does_not_delay_another() -> None:
    waiting(factories.project("flood"), 50)
    waiting(factories.project("small"), 2)
    assert sorted(claimed(4)) == ["flood-0", "flood-1", "small-0", "small-1"]
    assert sorted(claimed(3)) == ["flood-2", "flood-3", "flood-4"]


def test_runs_without_a_waiting_job_have_a_turn_of_their_own() -> None:
    waiting(factories.project("flood"), 20)
    request_run(factories.application("by-hand").id)
    assert ProfilingRun.objects.filter(project_id=NO_PROJECT).count() == 1
    assert sorted(claimed(2)) == ["by-hand", "flood-0"]


def test_one_project_gets_all_claims_if_no_other_waits() -> None:
    waiting(factories.project("only"), 9)
    assert sorted(claimed(8)) == [f"only-{i}" for i in range(8)]


def test_an_expired_run_of_a_project_is_claimed_in_its_turn() -> None:
    waiting(factories.project("flood"), 5)
    waiting(factories.project("small"), 1)
    assert len(claimed(6)) == 6
    past = factories.MOMENT - timedelta(days=1)
    ProfilingRun.objects.update(claimed_until=past)
    assert sorted(claimed(2)) == ["flood-0", "small-0"]


def test_a_run_belongs_to_the_project_whose_job_waits_longest() -> None:
    first, second = factories.project("first"), factories.project("second")
    application = factories.application("shared")
    factories.job(application=application, project=first, state="succeeded")
    factories.job(application=application, project=second)
    factories.job(application=application, project=first)
    request(application)
    assert ProfilingRun.objects.get().project_id == second.pk
