"""Profiling plans follow the ranking of columns in the active revision."""

import pytest
from django.db import transaction

from apps.classification import selectors
from apps.classification.core.matrix import MatrixName
from apps.classification.models import RevisionReason
from apps.classification.services import begin_reclassification, reclassify_if_due
from apps.common.core.interference import SOURCES
from apps.profiling.models import ProfilingRun, Ranking
from apps.profiling.selectors import ranking
from apps.profiling.services import request_runs
from apps.workloads.core.framework import LABELS
from tests import factories

pytestmark = pytest.mark.django_db

PLATFORMS = ("cr1.8xlarge", "m2.4xlarge", "m1.large", "m1.small")


@pytest.fixture(autouse=True)
def _cluster() -> None:
    for rank, name in enumerate(PLATFORMS):
        factories.server(of=factories.platform(name, cores=32 >> rank, rank=rank))
    factories.library(PLATFORMS)


def planned(name: str, kind: str) -> list[dict[str, object]]:
    about = factories.application(name, kind=kind)
    with transaction.atomic():
        request_runs([about.id])
    runs = ProfilingRun.objects.get(application=about).plan["runs"]
    assert isinstance(runs, list)
    return runs


def test_a_stored_library_ranks_every_column_but_the_reference() -> None:
    order = ranking()
    assert sorted(order["heterogeneity"]) == sorted(PLATFORMS[1:])
    assert sorted(order["scale_up"], key=int) == ["2", "4", "8", "16", "32"]
    assert sorted(order["scale_out"], key=int) == ["2", "4", "8", "16", "32", "64", "100"]
    assert sorted(order["framework"]) == sorted(LABELS[1:])
    assert sorted(order["tolerated"]) == sorted(SOURCES)


def test_plans_measure_the_best_columns_first() -> None:
    order = ranking()
    for name in ("one", "two", "three"):
        runs = planned(name, "batch")
        assert runs[0]["sources"] == list(order["tolerated"][:4])
        assert runs[1]["units"] == int(order["scale_up"][0])
        assert runs[2]["platform"] == order["heterogeneity"][0]


def test_a_new_revision_brings_its_own_ranking() -> None:
    Ranking.objects.update(order={"scale_up": ["2"]})
    begin_reclassification(reason=RevisionReason.REQUEST, by=None)
    assert reclassify_if_due() == 2
    assert selectors.current_number() == 2
    assert len(ranking()[MatrixName.SCALE_UP.value]) == 5
