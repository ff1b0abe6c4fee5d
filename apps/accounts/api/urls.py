"""Addresses of identity."""

from apps.accounts.api.views import MeView, TokenDetail, TokenList
from apps.common.routes import route

urlpatterns = [
    *route("me/", MeView.as_view(), "api-me"),
    *route("tokens/", TokenList.as_view(), "api-tokens"),
    *route("tokens/<uuid:token_id>/", TokenDetail.as_view(), "api-token"),
]
