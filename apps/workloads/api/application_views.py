"""Views of applications."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.core.roles import Role
from apps.common.api.etags import entity_tag, expected_generation
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery, choice, exact, label
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.workloads import selectors
from apps.workloads.api.application_serializers import (
    ApplicationPatchSerializer,
    ApplicationRequestSerializer,
    ApplicationSerializer,
)
from apps.workloads.api.representations import represent_application
from apps.workloads.models import Application, ApplicationKind
from apps.workloads.services import create_application, update_application


class ApplicationList(ListView):
    """Applications: list them, add one before its first job."""

    row_serializer = ApplicationSerializer
    takes_key = True
    orders: ClassVar = {
        "name": Order(("name",)),
        "-created_at": Order(("created_at", "id"), descending=True),
    }
    filters: ClassVar = {
        "name": exact("name", "With exactly this name."),
        "q": exact("name__icontains", "Whose name contains this."),
        "kind": choice("kind", ApplicationKind.values, "Of this kind."),
        "label": label("labels", "With this label, name:value; repeatable."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Application]:
        """Return all applications."""
        return selectors.applications()

    def represent(self, row: Application) -> dict[str, Any]:
        """JSON of an application."""
        return represent_application(row)

    @extend_schema(request=ApplicationRequestSerializer, responses={201: ApplicationSerializer})
    def post(self, request: Request) -> Response:
        """Add an application."""
        data = validated(ApplicationRequestSerializer, request.data)

        def make() -> KeyedResponse:
            application = create_application(**data)
            location = f"/api/v1/applications/{application.pk}/"
            return KeyedResponse(201, location, represent_application(application))

        response = once(request, request.data, make)
        response["ETag"] = entity_tag(response.data["generation"])
        return response


def named_application(key: str) -> Application:
    """Return an application by id or name.

    Raises
    ------
    NotFoundError : it does not exist.
    """
    application = selectors.application_by(key)
    if application is None:
        raise NotFoundError(f"There is no application {key}.")
    return application


class ApplicationDetail(ApiView):
    """One application, addressed by id or by name.

    All projects share applications, so a change needs the role operator.
    """

    takes_match = frozenset({"PATCH"})
    write_role = Role.OPERATOR

    @extend_schema(responses=ApplicationSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return an application."""
        application = named_application(key)
        return answer(
            request, represent_application(application), generation=application.generation
        )

    @extend_schema(request=ApplicationPatchSerializer, responses=ApplicationSerializer)
    def patch(self, request: Request, key: str) -> Response:
        """Change an application's description or labels."""
        application = named_application(key)
        changed = update_application(
            application.pk,
            validated(ApplicationPatchSerializer, request.data),
            expected=expected_generation(request._request),
        )
        return answer(request, represent_application(changed), generation=changed.generation)
