"""A figure that has not changed is not sent again."""

from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.test import Client

from tests import factories

pytestmark = pytest.mark.django_db
POWER = "/figures/power/?range=24h"


@pytest.fixture(autouse=True)
def uncached() -> Iterator[None]:
    """Begin with no figure that an earlier test has cached."""
    cache.clear()
    yield
    cache.clear()


def test_an_unchanged_figure_is_answered_without_a_body(as_operator: Client) -> None:
    factories.frame(7000.0, [0.5])
    tag = as_operator.get(POWER)["ETag"]
    cache.clear()
    factories.cluster(seen_cluster_s=7260.0)  # only the time of the data is different
    again = as_operator.get(POWER, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", tag)


def test_a_changed_figure_has_another_tag(as_operator: Client) -> None:
    factories.frame(7000.0, [0.5])
    tag = as_operator.get(POWER)["ETag"]
    cache.clear()
    factories.frame(7100.0, [0.5, 0.6])
    again = as_operator.get(POWER, headers={"If-None-Match": tag})
    assert again.status_code == 200
    assert again["ETag"] != tag
