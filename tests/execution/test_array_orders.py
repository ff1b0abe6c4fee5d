"""Orders of commands that are members of an array."""

from typing import Any

import pytest

from apps.execution.services.agents import orders_of
from apps.inventory.core.backends import AGENT
from apps.workloads.models import Batch
from tests import factories

pytestmark = pytest.mark.django_db


def variables(**values: Any) -> dict[str, str]:
    server = factories.server()
    program = {"command": ["true"], "environment": {"A": "1"}, "working_directory": None}
    job = factories.job(state="starting", program=program, **values)
    factories.allocation(job, server, cores=1)
    factories.launch(job, backend=AGENT, state="requested")
    (order,) = orders_of(server.pk)
    return dict(order.environment)


def test_a_member_of_an_array_gets_its_index_and_its_array() -> None:
    array = Batch.objects.create(
        project=factories.project(), created_by=factories.user(), mode="array", total=1, accepted=1
    )
    found = variables(batch=array, array_index=7)
    assert found == {"A": "1", "BERTH_ARRAY_ID": str(array.pk), "BERTH_ARRAY_INDEX": "7"}


def test_other_jobs_get_no_variables_of_arrays() -> None:
    assert variables() == {"A": "1"}
