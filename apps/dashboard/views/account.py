"""The account of the signed-in user."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from apps.accounts.api.serializers import ROLES
from apps.accounts.selectors import sessions_of, user_by
from apps.dashboard.selectors.administration import tokens
from apps.dashboard.views.access import page


@page
def account(request: HttpRequest) -> HttpResponse:
    """Show password, sessions, tokens and projects of the user."""
    user = user_by(str(request.user.pk))
    context = {
        "person": user,
        "sessions": sessions_of(user.pk).order_by("-created_at"),
        "current_key": request.session.session_key,
        "tokens": tokens(user.pk),
        "tokens_url": "/api/v1/tokens/",
        "roles": [value for value, _ in ROLES],
    }
    return render(request, "dashboard/account.html", context)


@page
def password(request: HttpRequest) -> HttpResponse:
    """Ask for a new password after a sign-in with a one-time password."""
    if not getattr(request.user, "must_change_password", False):
        return redirect("account")
    return render(request, "dashboard/password.html")
