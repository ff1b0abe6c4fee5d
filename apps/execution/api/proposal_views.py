"""Proposed preemptions: list, detail, approval and dismissal."""

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role, includes
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.problems import ProblemError
from apps.common.api.queries import Filter, ListQuery, choice, choices, uid
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.keyed_requests import KeyedResponse
from apps.common.core.problem_codes import ProblemCode
from apps.common.infrastructure.request_id import current_request_id
from apps.execution.api.proposal_serializers import (
    ApprovalSerializer,
    ProposalDetailSerializer,
    ProposalSerializer,
    represent_check,
    represent_proposal,
    represent_victim,
)
from apps.execution.models import PreemptionProposal, ProposalState
from apps.execution.selectors.preemption import proposal_by_id, proposals_for
from apps.execution.services.preemption_approval import (
    LimitsExceededError,
    ProposalChangedError,
    approve_proposal,
    check_proposal,
    dismiss_proposal,
)
from apps.execution.services.proposed_preemptions import renew_proposal
from apps.operations.api.idempotency import once
from apps.workloads.models import Job
from apps.workloads.selectors import visible_job, visible_jobs


class ProposalList(ListView):
    """Proposed preemptions for the jobs that the caller may see, newest first."""

    row_serializer = ProposalSerializer
    filters: ClassVar[Mapping[str, Filter]] = {
        "state": choice("state", ProposalState, "In this state."),
        "state__in": choices("state", ProposalState, "In one of these states."),
        "job": uid("job_id", "For this waiting job."),
    }
    orders: ClassVar[Mapping[str, Order]] = {"-id": Order(("id",), descending=True)}
    brief_fields = ("id", "job", "state")
    _jobs: Mapping[UUID, Job]

    def rows(
        self, request: Request, query: ListQuery, **kwargs: Any
    ) -> QuerySet[PreemptionProposal]:
        """Return the proposals."""
        return proposals_for(visible_jobs(principal_of(request)))

    def prepare(self, rows: list[PreemptionProposal]) -> None:
        """Load the waiting jobs."""
        jobs = visible_jobs(principal_of(self.request))
        self._jobs = jobs.in_bulk({row.job_id for row in rows})

    def represent(self, row: PreemptionProposal) -> dict[str, Any]:
        """Return a proposal as JSON."""
        return represented(self.request, row, self._jobs[row.job_id])


class ProposalDetail(ApiView):
    """One proposed preemption."""

    @extend_schema(responses=ProposalDetailSerializer)
    def get(self, request: Request, proposal_id: int) -> Response:
        """Return a proposal with its victims; those that the caller may not see have no name."""
        return answer(request, detail(request, visible_proposal(request, proposal_id)))


class ProposalApply(ApiView):
    """Application of a proposed preemption."""

    write_role = Role.OPERATOR
    takes_key = True

    @extend_schema(request=ApprovalSerializer, responses={202: ProposalSerializer})
    def post(self, request: Request, proposal_id: int) -> Response:
        """Stop exactly the victims that the proposal names.

        409 if a victim has ended, is not needed or would miss a target now; `difference` says
        which, and `proposal` is the number of the new proposal, if one is possible. 409 too if
        `exceeded_limits` are not overridden.
        """
        job = job_of(request, visible_proposal(request, proposal_id))
        overrides = validated(ApprovalSerializer, request.data)["override_limits"]

        def approve() -> KeyedResponse:
            done = approve_proposal(
                proposal_id, override_limits=overrides, request_id=current_request_id()
            )
            return KeyedResponse(202, address_of(done), represented(request, done, job))

        try:
            return once(request, request.data, approve)
        except ProposalChangedError as error:
            renewed = renew_proposal(proposal_id, error.difference.message)
            number = None if renewed is None else renewed.pk
            found = {"difference": error.difference.as_json(), "proposal": number}
            raise ProblemError(ProblemCode.STATE_CONFLICT, str(error), extra=found) from error
        except LimitsExceededError as error:
            limits = {"exceeded_limits": [each.as_json() for each in error.exceeded]}
            raise ProblemError(ProblemCode.STATE_CONFLICT, str(error), extra=limits) from error


class ProposalDismiss(ApiView):
    """Dismissal of a proposed preemption."""

    takes_body = False
    write_role = Role.OPERATOR

    @extend_schema(request=None, responses=ProposalSerializer)
    def post(self, request: Request, proposal_id: int) -> Response:
        """Dismiss a proposal; none is made for its job during the cool-down."""
        job = job_of(request, visible_proposal(request, proposal_id))
        return Response(represented(request, dismiss_proposal(proposal_id), job))


def visible_proposal(request: Request, proposal_id: int) -> PreemptionProposal:
    """Return a proposal.

    Raises
    ------
    NotFoundError : there is none, or the caller may not see its waiting job.
    """
    found = proposal_by_id(proposal_id)
    job_of(request, found)
    return found


def job_of(request: Request, proposal: PreemptionProposal) -> Job:
    """Return the waiting job of a proposal, if the caller may see it."""
    job = visible_job(principal_of(request), proposal.job_id)
    if job is None:
        raise NotFoundError(f"there is no preemption proposal {proposal.pk}")
    return job


def detail(request: Request, proposal: PreemptionProposal) -> dict[str, Any]:
    """Return a proposal with its victims as JSON."""
    caller = principal_of(request)
    ids = [UUID(victim["id"]) for victim in proposal.preview]
    visible = set(visible_jobs(caller).filter(pk__in=ids).values_list("pk", flat=True))
    check = None
    if proposal.state == ProposalState.PROPOSED and includes(caller.role, Role.OPERATOR):
        check = represent_check(*check_proposal(proposal))
    return {
        **represented(request, proposal, job_of(request, proposal)),
        "named": [represent_victim(victim, visible) for victim in proposal.preview],
        "check": check,
    }


def address_of(proposal: PreemptionProposal) -> str:
    """Return the address of a proposal."""
    return f"/api/v1/preemptions/{proposal.pk}/"


def represented(request: Request, proposal: PreemptionProposal, job: Job) -> dict[str, Any]:
    """Return a proposal as JSON, without names of jobs that the caller may not see."""
    sees_all = principal_of(request).sees_everything()
    return represent_proposal(proposal, job, names_victims=sees_all)
