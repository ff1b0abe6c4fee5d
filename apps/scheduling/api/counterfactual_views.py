"""Counterfactuals of decisions: decided again with something changed."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.principal import Principal
from apps.accounts.core.roles import Role
from apps.common.api.inputs import validated
from apps.common.api.views import ApiView, answer
from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.inventory.api.views import named_server
from apps.inventory.models import Server
from apps.inventory.selectors import server_names
from apps.scheduling.api.views import visible_decision
from apps.scheduling.core import registry
from apps.scheduling.core.refusals import DETAILS
from apps.scheduling.models import Decision
from apps.scheduling.services.by_worker import counterfactual_by_worker, flips_by_worker
from apps.workloads.core.guarantees import MAX_R
from apps.workloads.core.reasons import MEANINGS, Reason
from apps.workloads.core.targets import check_target
from apps.workloads.selectors import visible_jobs


class CounterfactualRequestSerializer(serializers.Serializer[Any]):
    """Changes to a decision; everything else stays as it was."""

    policy = serializers.CharField(required=False, max_length=63)
    parameters = serializers.DictField(
        child=serializers.FloatField(),
        required=False,
        help_text="Weights and others of the policy.",
    )
    sample_size = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_R, help_text="R."
    )
    target = serializers.DictField(required=False, help_text="As in a job; the size follows.")
    without_servers = serializers.ListField(
        child=serializers.CharField(max_length=63), required=False, max_length=100
    )


class PredictedChoiceSerializer(serializers.Serializer[Any]):
    """Prediction for the chosen units, by the same formulas for every policy."""

    performance = serializers.FloatField(help_text="Mean of platform speed times `own`.")
    speed = serializers.FloatField(help_text="Of the platforms, relative to the highest-end one.")
    own = serializers.FloatField(help_text="Share of the speed that interference leaves.")
    neighbours = serializers.FloatField(help_text="Product of what the neighbours keep.")


class ChosenServerSerializer(serializers.Serializer[Any]):
    """Units on one server."""

    server = serializers.CharField()
    platform = serializers.CharField()
    units = serializers.IntegerField()


class LoserSerializer(serializers.Serializer[Any]):
    """A job on a chosen server that would lose performance."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    server = serializers.CharField()
    loss = serializers.FloatField(help_text="Share of its performance.")


class LosersSerializer(serializers.Serializer[Any]):
    """Jobs that would lose performance."""

    jobs = LoserSerializer(many=True, help_text="That you may see, the largest loss first.")
    others = serializers.IntegerField(help_text="Number of those that you may not see.")
    largest_other = serializers.FloatField(help_text="Largest loss among those; 0 = none.")


class ChoiceSerializer(serializers.Serializer[Any]):
    """One outcome."""

    outcome = serializers.ChoiceField(choices=["placed", "refused"])
    reason = serializers.CharField(allow_blank=True, help_text="Of a refusal.")
    reason_text = serializers.CharField(allow_blank=True, help_text="The reason as a sentence.")
    detail = serializers.CharField(allow_blank=True)
    policy = serializers.CharField()
    units = serializers.IntegerField()
    servers = ChosenServerSerializer(many=True)
    prediction = PredictedChoiceSerializer(allow_null=True, help_text="Null for a refusal.")
    predicted = serializers.DictField(help_text="Performance that the size was chosen for.")
    losers = LosersSerializer()
    examined = serializers.IntegerField()
    eligible = serializers.IntegerField()
    dropped = serializers.DictField(child=serializers.IntegerField())
    candidates = serializers.ListField(child=serializers.DictField())


class CounterfactualSerializer(serializers.Serializer[Any]):
    """A decision as it was, and with changes."""

    decision = serializers.UUIDField()
    is_same = serializers.BooleanField(help_text="The same units would have been chosen.")
    before = ChoiceSerializer()
    after = ChoiceSerializer()


class FlipSerializer(serializers.Serializer[Any]):
    """A change with which the server would have been chosen."""

    change = serializers.DictField(help_text="Body of a counterfactual.")
    effect = serializers.CharField()


class FlipsSerializer(serializers.Serializer[Any]):
    """The smallest changes that would have chosen a server; each one was verified."""

    decision = serializers.UUIDField()
    server = serializers.CharField(allow_null=True, help_text="Null: no other was examined.")
    is_chosen = serializers.BooleanField(help_text="It was chosen as it is.")
    flips = FlipSerializer(many=True)


class DecisionCounterfactuals(ApiView):
    """Counterfactual of a decision."""

    rate_class = "solver"
    write_role = Role.VIEWER  # nothing is written

    @extend_schema(
        operation_id="decisions_counterfactual",
        request=CounterfactualRequestSerializer,
        responses=CounterfactualSerializer,
    )
    def post(self, request: Request, decision_id: UUID) -> Response:
        """Decide again with another policy, R, target or weights, or without some servers."""
        decision = visible_decision(request, decision_id)
        changes = read_changes(validated(CounterfactualRequestSerializer, request.data), decision)
        found = _found(counterfactual_by_worker(decision.pk, changes))
        return Response(represent_counterfactual(decision, found, principal_of(request)))


class DecisionFlips(ApiView):
    """Smallest changes that would have changed a decision."""

    rate_class = "solver"
    query_parameters = frozenset({"server"})

    @extend_schema(
        operation_id="decisions_flips",
        responses=FlipsSerializer,
        parameters=[
            OpenApiParameter(
                "server", str, description="To be chosen; the best that was not by default."
            )
        ],
    )
    def get(self, request: Request, decision_id: UUID) -> Response:
        """Return what would have to change for a server to be chosen."""
        decision = visible_decision(request, decision_id)
        key = request.query_params.get("server")
        server = None if key is None else named_server(key).pk
        found = _found(flips_by_worker(decision.pk, server))
        return answer(request, {"decision": str(decision.pk), **found})


def _found(result: dict[str, Any]) -> dict[str, Any]:
    if "failed" in result:
        raise ConflictError(f"The change cannot be tried: {result['failed']}.")
    if "unavailable" in result:
        raise ConflictError(f"The decision cannot be repeated: {result['unavailable']}.")
    return result


def read_changes(found: Mapping[str, Any], decision: Decision) -> dict[str, Any]:
    """Return checked changes, as arguments of `services.counterfactuals.Changes`.

    Raises
    ------
    InvalidInputError : lists the invalid fields, or says that nothing is changed.
    """
    problems: list[FieldProblem] = []
    policy = found.get("policy")
    if policy is not None and policy not in registry.POLICIES:
        detail = f"must be one of {', '.join(sorted(registry.POLICIES))}, not {policy!r}"
        problems.append(FieldProblem("/policy", "unknown_value", detail))
    elif policy is not None or decision.policy in registry.POLICIES:
        decides = registry.policy_after(
            decision.policy, policy, sample_size=found.get("sample_size")
        )
        problems += _parameter_problems(decides, found.get("parameters", {}))
    size = found.get("sample_size")
    if size is not None:
        problems += _sample_problems(size, policy)
    if "target" in found:
        check_target(found["target"], "/target", problems)
    names = found.get("without_servers", [])
    ids = dict(Server.objects.filter(name__in=names).values_list("name", "id"))
    problems += [
        FieldProblem(f"/without_servers/{i}", "unknown_value", f"there is no server {name!r}")
        for i, name in enumerate(names)
        if name not in ids
    ]
    if not found:
        problems.append(FieldProblem("/", "required", "change at least one field"))
    if problems:
        raise InvalidInputError(problems)
    return {
        "policy": policy,
        "parameters": found.get("parameters", {}),
        "sample_size": size,
        "target": found.get("target"),
        "without": [ids[name] for name in names],
    }


def _sample_problems(size: int, policy: str | None) -> list[FieldProblem]:
    """Return what is wrong with R, for example that the policy does not compare R candidates."""
    problems = []
    if size > settings.MAX_SAMPLE:
        detail = f"must be at most {settings.MAX_SAMPLE}, not {size}"
        problems.append(FieldProblem("/sample_size", "out_of_range", detail))
    if policy in registry.POLICIES and not registry.draws_sample(policy):
        others = ", ".join(filter(registry.draws_sample, sorted(registry.POLICIES)))
        detail = (
            f"{policy} does not compare R candidates; with sample_size, omit policy or use one of"
            f" {others}"
        )
        problems.append(FieldProblem("/sample_size", "contradiction", detail))
    return problems


def _parameter_problems(policy: str, parameters: Mapping[str, float]) -> list[FieldProblem]:
    if policy not in registry.POLICIES:
        return []
    found = {name: registry.parameter_problem(policy, name, v) for name, v in parameters.items()}
    return [
        FieldProblem(f"/parameters/{name}", "invalid", problem)
        for name, problem in found.items()
        if problem
    ]


def represent_counterfactual(
    decision: Decision, found: Mapping[str, Any], principal: Principal
) -> dict[str, Any]:
    """JSON of a counterfactual; jobs that the caller may not see are only counted."""
    both = [found["before"], found["after"]]
    ids = {loser["job"] for choice in both for loser in choice["neighbours"]}
    rows = visible_jobs(principal).filter(pk__in=ids).values_list("id", "name")
    names = {str(key): name for key, name in rows}
    servers = server_names({row["server_id"] for choice in both for row in choice["candidates"]})
    before, after = (_choice(choice, names, servers) for choice in both)
    return {
        "decision": str(decision.pk),
        "is_same": found["is_same"],
        "before": before,
        "after": after,
    }


def _choice(
    choice: Mapping[str, Any], names: Mapping[str, str], servers: Mapping[int, str]
) -> dict[str, Any]:
    losers = choice["neighbours"]
    hidden = [loser for loser in losers if loser["job"] not in names]
    shown = {name: value for name, value in choice.items() if name not in _INTERNAL}
    candidates = [{"server": servers.get(row["server_id"]), **row} for row in choice["candidates"]]
    jobs = [{**loser, "name": names[loser["job"]]} for loser in losers if loser["job"] in names]
    others = {"jobs": jobs, "others": len({each["job"] for each in hidden})}
    largest = max((each["loss"] for each in hidden), default=0.0)
    reason = choice["reason"]
    return {
        **shown,
        "detail": "" if choice["detail"] == DETAILS.get(reason) else choice["detail"],
        "reason_text": MEANINGS[Reason(reason)].sentence if reason else "",
        "candidates": candidates,
        "losers": {**others, "largest_other": largest},
    }


_INTERNAL = frozenset({"neighbours", "unit_ids"})
