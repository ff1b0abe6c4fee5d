"""URLs of events and operations."""

from apps.common.api.routes import route
from apps.operations.api import views

urlpatterns = [
    *route("events/", views.EventList.as_view(), "api-events"),
    *route("changes/", views.ChangesView.as_view(), "api-changes"),
    *route("stream/", views.StreamRedirect.as_view(), "api-stream"),
    *route("stream/tickets/", views.TicketView.as_view(), "api-stream-tickets"),
    *route("operations/", views.OperationList.as_view(), "api-operations"),
    *route("operations/<uuid:operation_id>/", views.OperationDetail.as_view(), "api-operation"),
    *route(
        "operations/<uuid:operation_id>/cancel/",
        views.OperationCancel.as_view(),
        "api-operation-cancel",
    ),
]
