"""What is believed about applications."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.classification.api.serializers import ClassificationSerializer, represent_profile
from apps.classification.models import Profile
from apps.common.core.errors import NotFoundError
from apps.common.views import ApiView, answer
from apps.workloads.api.application_views import named_application


class ClassificationView(ApiView):
    """The current profile of an application."""

    @extend_schema(responses=ClassificationSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return what is believed of an application, and whether measured or inferred."""
        application = named_application(key)
        profile = Profile.objects.filter(application=application, is_current=True).first()
        if profile is None:
            raise NotFoundError(f"{application.name} has not been classified yet.")
        return answer(request, represent_profile(profile, application.name))
