"""The verbs of `berth preemption`."""

import json

import pytest
from django.conf import LazySettings

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import create_user
from apps.execution.models import PreemptionProposal
from apps.inventory.models import Cluster
from apps.scheduling.selectors import ClusterFollower
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth
from tests.execution.migration_world import cluster, end, launch_of, running


@pytest.fixture
def user(transactional_db: None) -> User:
    return create_user(username="olga", password=None, role=Role.OPERATOR)


@pytest.fixture
def number(user: User, monkeypatch: pytest.MonkeyPatch) -> str:
    """The number of a proposal to stop the job `low` for the job `urgent`."""
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    cluster("a")
    victim = running([0, 1, 2, 3], name="low", target={"kind": "best_effort"})
    Cluster.objects.update(seen_cluster_s=7560.0)
    waiting = factories.job("urgent", priority=5, target={"kind": "best_effort"})
    factories.waiting_shape(waiting, units=2, min_units=2)
    return str(factories.preemption_proposal(waiting, victim).pk)


def test_proposals_are_listed_by_state(berth: Berth, number: str) -> None:
    row = berth("preemption", "list", "--state", "proposed")[1].splitlines()[1]
    assert row.split() == [number, "proposed", "urgent", "default", "5", "1", "240", "0"]
    assert berth("preemption", "list", "--state", "applied")[1] == "Nothing found.\n"
    (found,) = json.loads(berth("preemption", "list", "--json")[1])
    assert (found["id"], found["job_name"]) == (int(number), "urgent")


def test_a_proposal_is_shown_and_applied(berth: Berth, number: str) -> None:
    _, text, _ = berth("preemption", "show", number)
    assert "Without it, 2 units are missing." in text
    check = json.loads(berth("preemption", "show", number, "--json")[1])["check"]
    assert f"240 unit-seconds when it was proposed, {check['lost_unit_seconds']:,} now\n" in text
    assert f"to apply it: berth preemption apply {number}\n" in text
    code, text, _ = berth("preemption", "apply", number)
    assert (code, text) == (Exit.OK, "1 job is being stopped for urgent.\n")
    assert launch_of(PreemptionProposal.objects.get().preview[0]["id"]).cancel_requested
    assert "decided by  olga" in berth("preemption", "show", number)[1]


def test_a_changed_proposal_is_a_conflict(berth: Berth, number: str) -> None:
    end(launch_of(PreemptionProposal.objects.get().preview[0]["id"]).job)
    assert "cannot be applied: low no longer runs." in berth("preemption", "show", number)[1]
    code, _, error = berth("preemption", "apply", number)
    assert code == Exit.CONFLICT
    assert "low no longer runs. Nothing was stopped." in error
    assert "berth preemption list --state proposed" in error


def test_a_limit_must_be_overridden(berth: Berth, number: str, settings: LazySettings) -> None:
    settings.PREEMPTIONS_PER_HOUR = 0
    _, text, _ = berth("preemption", "show", number)
    assert "exceeds BERTH_PREEMPTIONS_PER_HOUR: Only 0 more jobs" in text
    assert f"berth preemption apply {number} --override-limits" in text
    assert "overrides BERTH_PREEMPTIONS_PER_HOUR" in berth("preempt", "urgent")[1]
    assert berth("preemption", "apply", number)[0] == Exit.CONFLICT
    assert berth("preemption", "apply", number, "--override-limits")[0] == Exit.OK


def test_a_proposal_is_dismissed(berth: Berth, number: str) -> None:
    code, text, _ = berth("preemption", "dismiss", number)
    assert (code, text) == (Exit.OK, "The proposal for urgent is dismissed.\n")
    assert PreemptionProposal.objects.get().state == "dismissed"
