"""Single jobs of a comparison that would have gained or lost."""

from typing import Any, Final
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.api.queries import read, read_int, read_word
from apps.common.api.views import ApiView, answer
from apps.common.core.errors import ConflictError
from apps.testbed.core.lab_jobs import Direction
from apps.testbed.models import LabComparison
from apps.testbed.selectors import lab as selectors
from apps.testbed.selectors import lab_results
from apps.testbed.selectors.lab_results import ChangedJob, ChangedJobs
from apps.workloads.selectors import visible_jobs

MAX_JOBS: Final = 1_000
BASELINE: Final = OpenApiParameter(
    "baseline",
    str,
    description="A setting but a bound: the result is that at its load. That of the request if"
    " omitted.",
)


class ChangedJobSerializer(serializers.Serializer[Any]):
    """One job under two settings; performance is the mean of the seeds, 0 = unfinished."""

    place = serializers.IntegerField(help_text="Of the job in the scenario, from 0.")
    job = serializers.UUIDField(allow_null=True, help_text="Of this cluster, if it still exists.")
    name = serializers.CharField(allow_null=True)
    application = serializers.CharField()
    submitted_seconds = serializers.FloatField(help_text="Since the first job.")
    performance_baseline = serializers.FloatField()
    performance_setting = serializers.FloatField()
    change_points = serializers.FloatField()
    seeds_gained = serializers.IntegerField()
    seeds_lost = serializers.IntegerField()


class ChangedJobsSerializer(serializers.Serializer[Any]):
    """The jobs that change most, largest change first."""

    setting = serializers.CharField()
    baseline = serializers.CharField()
    jobs = serializers.IntegerField()
    seeds = serializers.IntegerField()
    gained = serializers.IntegerField(help_text="Jobs that gain half a point in every seed.")
    lost = serializers.IntegerField(help_text="Jobs that lose half a point in every seed.")
    results = ChangedJobSerializer(many=True)


def asked_baseline(request: Request, comparison: LabComparison) -> str:
    """Return the baseline that the address names, or that of the comparison.

    Raises
    ------
    ProblemError : it is not a setting of the finished comparison, or the bound.
    ConflictError : another baseline is requested before the last run has ended.
    """
    asked = request.query_params.get("baseline")
    if asked is None:
        return comparison.baseline
    if comparison.result is None:
        raise ConflictError("The comparison has no result yet; another baseline needs one.")
    return _one_of("baseline", asked, lab_results.baselines_of(comparison))


def _one_of(name: str, value: str, accepted: tuple[str, ...]) -> str:
    found: str = read(name, value, lambda text: read_word(text, accepted))
    return found


class ComparisonJobs(ApiView):
    """The jobs that would have gained or lost under a setting."""

    read_role = Role.OPERATOR
    query_parameters = frozenset({"setting", "baseline", "direction", "limit"})

    @extend_schema(
        responses=ChangedJobsSerializer,
        parameters=[
            OpenApiParameter(
                "setting", str, description="The first one besides the baseline if omitted."
            ),
            BASELINE,
            OpenApiParameter("direction", str, enum=list(Direction), description="Default all."),
            OpenApiParameter("limit", int, description=f"At most {MAX_JOBS:,}; default 100."),
        ],
    )
    def get(self, request: Request, comparison_id: UUID) -> Response:
        """Return the jobs that gain or lose most, paired by job and seed."""
        comparison = selectors.comparison_by_id(comparison_id)
        if comparison.result is None:
            raise ConflictError("The comparison has no result yet.")
        baseline = asked_baseline(request, comparison)
        load = lab_results.load_of(comparison, baseline)
        others = tuple(n for n in lab_results.settings_at(comparison, load) if n != baseline)
        if not others:
            raise ConflictError("A second setting is needed to compare jobs.")
        params = request.query_params
        setting = _one_of("setting", params.get("setting", others[0]), others)
        direction = _one_of("direction", params.get("direction", "all"), (*Direction,))
        most = params.get("limit", "100")
        limit = read("limit", most, lambda v: read_int(v, low=1, high=MAX_JOBS))
        found = lab_results.jobs_that_change(
            comparison,
            visible_jobs(principal_of(request)),
            setting=setting,
            baseline=baseline,
            direction=Direction(direction),
            limit=limit,
        )
        return answer(request, _represent(found, setting, baseline))


def _represent(found: ChangedJobs, setting: str, baseline: str) -> dict[str, Any]:
    summary = found.summary
    return {
        "setting": setting,
        "baseline": baseline,
        "jobs": summary.jobs,
        "seeds": summary.seeds,
        "gained": summary.gained,
        "lost": summary.lost,
        "results": [_represent_job(row) for row in found.rows],
    }


def _represent_job(row: ChangedJob) -> dict[str, Any]:
    change = row.change
    return {
        "place": change.place,
        "job": str(row.job.pk) if row.job else None,
        "name": row.job.name if row.job else None,
        "application": row.application,
        "submitted_seconds": row.submitted_s,
        "performance_baseline": round(change.before, 6),
        "performance_setting": round(change.after, 6),
        "change_points": round(100.0 * change.change, 4),
        "seeds_gained": change.seeds_gained,
        "seeds_lost": change.seeds_lost,
    }
