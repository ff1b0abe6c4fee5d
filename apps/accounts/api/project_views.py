"""Projects and their members."""

from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.keyed_view import KeyedView
from apps.accounts.api.permissions import principal_of
from apps.accounts.api.project_serializers import (
    MemberRequestSerializer,
    MemberSerializer,
    ProjectPatchSerializer,
    ProjectRequestSerializer,
    ProjectSerializer,
    represent_member,
    represent_project,
)
from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Project
from apps.accounts.selectors import members_of, project_by, user_by, visible_projects
from apps.accounts.services import (
    create_project,
    delete_project,
    remove_membership,
    set_membership,
    update_project,
)
from apps.common.api.etags import expected_generation
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import Filter, ListQuery, exact, label, read_flag
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import FieldProblem, InvalidInputError, NotFoundError
from apps.common.core.keyed_requests import KeyedResponse


class ProjectList(KeyedView, ListView):
    """The projects that the caller may see; administrators add more."""

    write_role = Role.ADMIN
    row_serializer = ProjectSerializer
    orders: ClassVar = {"name": Order(("name",))}
    filters: ClassVar = {
        "name": exact("name", "With exactly this name."),
        "q": exact("name__icontains", "Whose name contains this."),
        "label": label("labels", "With this label, name:value; repeatable."),
        "archived": Filter(
            lambda value: Q(archived_at__isnull=not read_flag(value)),
            "Archived projects, or the others.",
            {"type": "boolean"},
        ),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Project]:
        """Return the caller's projects; all for operators."""
        return visible_projects(principal_of(request)).select_related("share")

    def represent(self, row: Project) -> dict[str, Any]:
        """JSON of a project."""
        return represent_project(row)

    @extend_schema(request=ProjectRequestSerializer, responses={201: ProjectSerializer})
    def post(self, request: Request) -> Response:
        """Create a project without members."""
        data = _fields(validated(ProjectRequestSerializer, request.data))

        def make() -> KeyedResponse:
            project = create_project(data.pop("name"), data)
            location = f"/api/v1/projects/{project.pk}/"
            return KeyedResponse(201, location, represent_project(project))

        return self.once(request, request.data, make)


class ProjectDetail(ApiView):
    """One project, addressed by id or by name."""

    takes_match = frozenset({"PATCH", "DELETE"})
    write_role = Role.ADMIN

    @extend_schema(responses=ProjectSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return a project."""
        return _present(request, project_by(principal_of(request), key))

    @extend_schema(request=ProjectPatchSerializer, responses=ProjectSerializer)
    def patch(self, request: Request, key: str) -> Response:
        """Rename, describe, label, archive or restore a project, or change its quota."""
        project = project_by(principal_of(request), key)
        changes = _fields(validated(ProjectPatchSerializer, request.data))
        expected = expected_generation(request._request)
        return _present(request, update_project(project.pk, changes, expected=expected))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, key: str) -> Response:
        """Delete a project that never had a job; archive the others."""
        project = project_by(principal_of(request), key)
        delete_project(project.pk, expected=expected_generation(request._request))
        return Response(status=204)


def _present(request: Request, project: Project) -> Response:
    return answer(request, represent_project(project), generation=project.generation)


class MemberList(KeyedView, ListView):
    """The members of a project."""

    write_role = Role.ADMIN
    row_serializer = MemberSerializer
    brief_fields = ("user_id", "username")
    orders: ClassVar = {"id": Order(("id",))}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Membership]:
        """Return the memberships of a project that the caller may see."""
        return members_of(project_by(principal_of(request), kwargs["key"]))

    def represent(self, row: Membership) -> dict[str, Any]:
        """JSON of a member."""
        return represent_member(row)

    @extend_schema(request=MemberRequestSerializer, responses={200: MemberSerializer})
    def post(self, request: Request, key: str) -> Response:
        """Add a member, or change the role of a member."""
        project = project_by(principal_of(request), key)
        data = validated(MemberRequestSerializer, request.data)
        try:
            user = user_by(data["username"])
        except NotFoundError as error:
            raise InvalidInputError([FieldProblem("/username", "unknown", str(error))]) from error

        def make() -> KeyedResponse:
            row = set_membership(user=user, project=project, role=Role(data["role"]))
            return KeyedResponse(200, "", represent_member(row))

        return self.once(request, request.data, make)


class MemberDetail(ApiView):
    """One member of a project, addressed by id or by name."""

    write_role = Role.ADMIN

    @extend_schema(responses={204: None})
    def delete(self, request: Request, key: str, user: str) -> Response:
        """Remove a member."""
        project = project_by(principal_of(request), key)
        remove_membership(user=user_by(user), project=project)
        return Response(status=204)


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `Project` that a request names."""
    fields = dict(data)
    if "requires_key" in fields:
        fields["key_optional"] = not fields.pop("requires_key")
    if "archived" in fields:
        fields["is_archived"] = fields.pop("archived")
    return fields
