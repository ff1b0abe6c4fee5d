"""The copy of the cluster that the extender judges by, from the database."""

import time

import pytest

from apps.execution.backends.kubernetes import extender_views
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


def test_the_application_that_was_asked_for_least_recently_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    monkeypatch.setattr(extender_views, "profile_named", read.append)
    monkeypatch.setattr(extender_views, "MAX_PROFILES", 2)
    views = Views()
    for name in ("a", "b", "a", "c"):
        views.profile(name)
    views.refresh()
    assert read == ["a", "c"]
    views.profile("b")
    views.refresh()
    # "a" made room for it; "c" was read a moment ago
    assert read == ["a", "c", "b"]
