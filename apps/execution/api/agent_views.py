"""Routes of the agents, and of the administrators who enrol them."""

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.api.inputs import validated
from apps.common.api.representations import time
from apps.common.api.views import ApiView, answer
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.execution.api.agent_auth import AgentAuthentication, IsAgent
from apps.execution.api.agent_serializers import (
    AgentsSerializer,
    CredentialSerializer,
    EnrolmentSerializer,
    EnrolSerializer,
    FilesRequestSerializer,
    LaunchFilesSerializer,
    NewEnrolmentSerializer,
    OrdersSerializer,
    OutputSerializer,
    RegisteredSerializer,
    RegisterSerializer,
    SyncSerializer,
    represent_agent,
)
from apps.execution.api.order_stream import PATH as ORDERS_PATH
from apps.execution.core.agent.wire import (
    HEARTBEAT_S,
    MAX_CHUNK,
    order_json,
    read_known_orders,
    read_report,
    read_sample,
    read_usage,
)
from apps.execution.models import ServerAgent
from apps.execution.selectors.agents import agents
from apps.execution.services import agent_credentials as credentials
from apps.execution.services import agents as service
from apps.execution.services.files import archive_for
from apps.execution.services.heartbeats import beat
from apps.execution.services.output import append_output
from apps.execution.services.task_samples import record_samples
from apps.inventory.services import MachineShape
from apps.workloads.api.submission import caller_as_user

_Value = TypeVar("_Value")


class AgentList(ApiView):
    """The agents of the cluster."""

    read_role = Role.OPERATOR

    @extend_schema(responses=AgentsSerializer)
    def get(self, request: Request) -> Response:
        """Return all agents, by name."""
        return answer(request, {"results": [represent_agent(row) for row in agents()]})


class AgentDetail(ApiView):
    """The agent of one server."""

    write_role = Role.ADMIN

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Revoke the credential of an agent; it stops its jobs when its lease ends."""
        credentials.revoke(name)
        return Response(status=204)


class EnrolmentTokens(ApiView):
    """Permissions for machines to become servers."""

    write_role = Role.ADMIN

    @extend_schema(request=EnrolmentSerializer, responses={201: NewEnrolmentSerializer})
    def post(self, request: Request) -> Response:
        """Create a token that enrols one machine once. Its secret is shown only now."""
        given = validated(EnrolmentSerializer, request.data)
        new = credentials.create_enrolment(
            server_name=given["server"],
            user=caller_as_user(principal_of(request)),
            lifetime_s=given["expires_in_seconds"],
        )
        body = {
            "id": str(new.token.pk),
            "server": new.token.server_name,
            "secret": new.secret,
            "expires_at": time(new.token.expires_at),
        }
        return Response(body, status=201)


class Enrol(ApiView):
    """Enrolment of a machine, which has no credential yet."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(request=EnrolSerializer, responses={201: CredentialSerializer})
    def post(self, request: Request) -> Response:
        """Exchange an enrolment token for the credential of an agent."""
        new = credentials.enrol(validated(EnrolSerializer, request.data)["token"])
        return Response({"server": new.agent.name, "credential": new.secret}, status=201)


class AgentView(ApiView):
    """Base of the routes that only agents may use."""

    authentication_classes = (AgentAuthentication,)
    permission_classes = (IsAgent,)
    rate_class = "agent"  # without a limit: an agent that is refused must stop its jobs

    def agent(self, request: Request) -> ServerAgent:
        """Return the calling agent."""
        return cast("ServerAgent", request.auth)


class RegisterAgent(AgentView):
    """Registration of a machine."""

    @extend_schema(request=RegisterSerializer, responses=RegisteredSerializer)
    def post(self, request: Request) -> Response:
        """Register the machine, and fence agents that registered it before."""
        given = validated(RegisterSerializer, request.data)
        facts = given.pop("facts")
        given["l3_groups"] = tuple(given["l3_groups"])
        agent = service.register_agent(self.agent(request), MachineShape(**given), facts)
        return Response(
            {
                "server": agent.name,
                "epoch": agent.epoch,
                "lease_s": agent.facts[service.GRANTED],
                "heartbeat_s": HEARTBEAT_S,
                "orders_url": f"{settings.BERTH_STREAM_ORIGIN}{ORDERS_PATH}",
            }
        )


class Sync(AgentView):
    """Exchange of reports for orders."""

    @extend_schema(request=SyncSerializer, responses=OrdersSerializer)
    def post(self, request: Request) -> Response:
        """Record reports and a heartbeat; return all live launches of the server.

        With ``wait_s``, the answer waits until a launch is new to the agent or is to be stopped,
        unless other agents wait on this process already.
        """
        given = validated(SyncSerializer, request.data)
        agent, epoch = self.agent(request), given["epoch"]
        reports = [
            _read(f"/reports/{i}", partial(read_report, item))
            for i, item in enumerate(given["reports"])
        ]
        samples = [
            _read(f"/samples/{i}", partial(read_sample, item))
            for i, item in enumerate(given["samples"])
        ]
        service.record_reports(agent, epoch, reports)
        record_samples(agent, epoch, samples)
        if given.get("usage") is not None:
            usage = _read("/usage", partial(read_usage, given["usage"]))
            service.confirm_lease(agent)
            beat(cast("int", agent.server_id), usage)
        known = read_known_orders(given)
        orders = service.wait_for_orders(agent, epoch, known, wait_s=given["wait_s"])
        return Response(
            {"lease_s": settings.AGENT_LEASE_S, "orders": [order_json(o) for o in orders]}
        )


def _read(pointer: str, read: Callable[[], _Value]) -> _Value:
    try:
        return read()
    except ValueError as error:
        raise InvalidInputError([FieldProblem(pointer, "invalid", str(error))]) from error


class Output(AgentView):
    """Output of a command."""

    rate_class = "output"

    @extend_schema(request=OutputSerializer, responses={204: None})
    def post(self, request: Request) -> Response:
        """Append a chunk to a stream of a launch."""
        given = validated(OutputSerializer, request.data)
        data = _read("/chunk", lambda: _decoded(given["chunk"]))
        append_output(
            self.agent(request),
            given["epoch"],
            launch=given["launch"],
            stream=given["stream"],
            start=given["start"],
            data=data,
        )
        return Response(status=204)


def _decoded(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("must be base64") from error
    if not 0 < len(data) <= MAX_CHUNK:
        raise ValueError(f"must have 1 to {MAX_CHUNK} bytes, not {len(data)}")
    return data


class Files(AgentView):
    """Files of a command."""

    @extend_schema(request=FilesRequestSerializer, responses=LaunchFilesSerializer)
    def post(self, request: Request) -> Response:
        """Return the files of a launch that the agent was ordered to run."""
        given = validated(FilesRequestSerializer, request.data)
        data = archive_for(self.agent(request), given["epoch"], given["launch"])
        return Response({"archive": base64.b64encode(data).decode()})


class RotateCredential(AgentView):
    """Rotation of an agent's credential."""

    takes_body = False

    @extend_schema(request=None, responses={201: CredentialSerializer})
    def post(self, request: Request) -> Response:
        """Return a new credential. The present one is valid until the new one is used."""
        agent = self.agent(request)
        secret = credentials.rotate(agent.pk)
        return Response({"server": agent.name, "credential": secret}, status=201)
