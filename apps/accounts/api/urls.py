"""URLs of identity and tokens."""

from django.urls import URLPattern

from apps.accounts.api.account_views import PasswordView, SessionDetail, SessionList
from apps.accounts.api.audit_views import AuditDetail, AuditExport, AuditList
from apps.accounts.api.keyed_view import Once, keyed
from apps.accounts.api.project_views import MemberDetail, MemberList, ProjectDetail, ProjectList
from apps.accounts.api.user_views import (
    BlockedSignIn,
    BlockedSignInList,
    UserDetail,
    UserList,
    UserPasswordReset,
    UserToken,
    UserTokenList,
)
from apps.accounts.api.views import MeView, TokenDetail, TokenList
from apps.common.api.routes import route


def keyed_routes(once: Once) -> list[URLPattern]:
    """Return the routes that need the Idempotency-Keys of a higher app."""
    of_user = keyed(UserTokenList, once)
    reset = keyed(UserPasswordReset, once)
    return [
        *route("tokens/", keyed(TokenList, once), "api-tokens"),
        *route("users/", keyed(UserList, once), "api-users"),
        *route("users/<str:key>/tokens/", of_user, "api-user-tokens"),
        *route("users/<str:key>/reset-password/", reset, "api-user-reset"),
        *route("projects/", keyed(ProjectList, once), "api-projects"),
        *route("projects/<str:key>/members/", keyed(MemberList, once), "api-members"),
    ]


urlpatterns = [
    *route("me/", MeView.as_view(), "api-me"),
    *route("tokens/<uuid:token_id>/", TokenDetail.as_view(), "api-token"),
    *route("account/password/", PasswordView.as_view(), "api-password"),
    *route("account/sessions/", SessionList.as_view(), "api-sessions"),
    *route("account/sessions/<uuid:session_id>/", SessionDetail.as_view(), "api-session"),
    *route("users/<str:key>/", UserDetail.as_view(), "api-user"),
    *route("users/<str:key>/tokens/<uuid:token_id>/", UserToken.as_view(), "api-user-token"),
    *route("blocked-sign-ins/", BlockedSignInList.as_view(), "api-blocked-sign-ins"),
    *route("blocked-sign-ins/<uuid:counter_id>/", BlockedSignIn.as_view(), "api-blocked-sign-in"),
    *route("projects/<str:key>/", ProjectDetail.as_view(), "api-project"),
    *route("projects/<str:key>/members/<str:user>/", MemberDetail.as_view(), "api-member"),
    *route("audit/", AuditList.as_view(), "api-audit"),
    *route("audit/export/", AuditExport.as_view(), "api-audit-export"),
    *route("audit/<int:entry_id>/", AuditDetail.as_view(), "api-audit-entry"),
]
