"""``profile_library``: a library of the existing platforms, and profiles inferred from it."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from apps.classification.core.matrix import MatrixName
from apps.classification.models import MatrixRevision, Profile
from apps.classification.selectors import current_library, profile_named, unprofiled_platforms
from apps.classification.services import classify
from apps.inventory.core.cluster_file import ClusterSpec, PlatformSpec, ServerSpec
from apps.inventory.services import import_cluster
from apps.profiling.models import ProfilingRun
from apps.profiling.services import record_measurements, request_runs
from tests import factories

pytestmark = pytest.mark.django_db

OLD = PlatformSpec("old", 4, 10**10, 10**9, 10**11, 10.0, 20.0)
NEW = PlatformSpec("new", 8, 10**10, 10**9, 10**11, 10.0, 20.0)


def cluster(*platforms: PlatformSpec) -> None:
    servers = tuple(ServerSpec(f"s-{p.name}", p.name, "r") for p in platforms)
    import_cluster(ClusterSpec("own", platforms, servers))


def profile(**options: int) -> list[str]:
    """Run the command; return its output lines."""
    out = StringIO()
    call_command("profile_library", stdout=out, **options)
    return out.getvalue().splitlines()


def columns() -> tuple[str, ...]:
    return current_library().matrices[MatrixName.HETEROGENEITY].columns


def test_the_platforms_of_the_cluster_are_profiled() -> None:
    cluster(OLD, NEW)
    output = profile()
    assert output[0] == "profiling the library on 2 platforms"
    assert output[1:-1] == [
        f"{n}/28 applications profiled" for n in (3, 6, 9, 12, 15, 18, 21, 24, 27, 28)
    ]
    assert output[-1] == "library of 28 applications, revision 1"
    assert columns() == ("old", "new")
    assert unprofiled_platforms() == []


def test_a_new_platform_makes_a_new_revision() -> None:
    cluster(OLD)
    profile()
    cluster(OLD, NEW)
    assert unprofiled_platforms() == ["new"]
    assert profile()[-1] == "library of 28 applications, revision 2"
    assert columns() == ("old", "new")
    assert MatrixRevision.objects.count() == 2 * len(MatrixName)


def test_what_was_known_of_the_library_stays_the_same() -> None:
    cluster(OLD)
    profile()
    before = current_library().matrices[MatrixName.SCALE_UP].values
    cluster(NEW)
    profile()
    assert (current_library().matrices[MatrixName.SCALE_UP].values == before).all()


@pytest.mark.parametrize("per_kind", [1, 3])
def test_the_library_may_be_smaller_or_larger(per_kind: int) -> None:
    cluster(OLD)
    lines = profile(per_kind=per_kind)
    assert lines[-1] == f"library of {4 * per_kind} applications, revision 1"


@pytest.mark.parametrize("per_kind", [0, -1, 201])
def test_an_impossible_number_is_refused(per_kind: int) -> None:
    cluster(OLD)
    with pytest.raises(CommandError, match="--per-kind must be between 1 and 200, got"):
        profile(per_kind=per_kind)


def test_without_platforms_it_says_what_to_do_first() -> None:
    with pytest.raises(CommandError, match="no platforms to profile on: import one first"):
        profile()


def test_applications_known_before_learn_of_the_new_platform() -> None:
    cluster(OLD)
    profile()
    about = factories.application("sort", kind="batch")
    request_runs([about.id])
    run = ProfilingRun.objects.get()
    record_measurements(run.id, at_s=60.0, cells=factories.cells(about, run=run))
    classify(about)
    cluster(NEW)
    assert profile()[-1] == "1 profiled applications classified again"
    known = profile_named("sort")
    assert known is not None
    assert (known.platforms, known.revision) == (("old", "new"), 2)
    assert Profile.objects.filter(is_current=True).count() == 1
