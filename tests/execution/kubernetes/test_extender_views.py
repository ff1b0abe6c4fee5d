"""The copy of the cluster that the extender judges by, from the database."""

import time

import pytest

from apps.execution.backends.kubernetes.extender_views import STALE_S, Views
from apps.inventory.core.backends import KUBERNETES
from tests import factories

pytestmark = pytest.mark.django_db


def test_the_copy_follows_the_database_and_ages() -> None:
    platform = factories.platform("kubernetes-box", cores=4)
    server = factories.server("n1", of=platform, backend=KUBERNETES)
    views = Views()
    assert views.current(time.monotonic()) is None
    views.refresh()
    now_s = time.monotonic()
    view = views.current(now_s)
    assert view is not None
    assert (dict(view.index), view.free.tolist(), view.units.tolist()) == ({"n1": 0}, [4], [4])
    assert view.memory.tolist() == [float(server.memory_bytes)]
    assert views.current(now_s + STALE_S + 1.0) is None


def test_profiles_are_read_when_they_are_asked_for() -> None:
    views = Views()
    assert (views.profile(None), views.profile("web")) == (None, None)
    views.refresh()
    assert views.profile("web") is None  # there is none
