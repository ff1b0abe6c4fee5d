"""Request a measurement of sampling quality."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.api.views import ApiView
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.operations.api.serializers import OperationSerializer, represent_operation
from apps.testbed.services.sampling_requests import begin_sampling_check


class SamplingChecks(ApiView):
    """Measurements of the quality of sampling."""

    write_role = Role.OPERATOR
    takes_key = True
    takes_body = False

    @extend_schema(request=None, responses={202: OperationSerializer})
    def post(self, request: Request) -> Response:
        """Measure the ranks of sampled units on an emulated cluster; returns the operation."""

        def begin() -> KeyedResponse:
            operation = begin_sampling_check(by=principal_of(request).user_id)
            location = f"/api/v1/operations/{operation.pk}/"
            return KeyedResponse(202, location, represent_operation(operation))

        return once(request, request.data, begin)
