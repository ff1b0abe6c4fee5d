"""URLs of measurements under /api/v1/."""

from apps.common.api.routes import route
from apps.testbed.api.views import SamplingChecks

urlpatterns = [*route("sampling-checks/", SamplingChecks.as_view(), "api-sampling-checks")]
