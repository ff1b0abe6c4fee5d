"""URLs of the inventory."""

from apps.common.api.routes import route
from apps.inventory.api import views

urlpatterns = [
    *route("cluster/", views.ClusterView.as_view(), "api-cluster"),
    *route("cluster/clock/", views.ClockView.as_view(), "api-clock"),
    *route("cluster/map/", views.MapView.as_view(), "api-map"),
    *route("platforms/", views.PlatformList.as_view(), "api-platforms"),
    *route("platforms/<int:platform_id>/", views.PlatformDetail.as_view(), "api-platform"),
    *route("interference-sources/", views.SourceList.as_view(), "api-sources"),
    *route("servers/", views.ServerList.as_view(), "api-servers"),
    *route("servers/<str:key>/", views.ServerDetail.as_view(), "api-server"),
    *route("servers/<str:key>/units/", views.ServerUnitsView.as_view(), "api-server-units"),
    *route("servers/<str:key>/drain/", views.ServerDrain.as_view(), "api-server-drain"),
    *route("servers/<str:key>/undrain/", views.ServerUndrain.as_view(), "api-server-undrain"),
    *route("servers/<str:key>/cordon/", views.ServerCordon.as_view(), "api-server-cordon"),
]
