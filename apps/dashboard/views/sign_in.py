"""Sign in and out."""

from typing import Any

from django.contrib.auth import login
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from apps.accounts.api.middleware import ADDRESS
from apps.accounts.core.sign_in import wait_text
from apps.accounts.infrastructure.actor import identify_actor
from apps.accounts.services import (
    Blocked,
    Verified,
    begin_session,
    end_session,
    verify_password,
)


class SignInForm(AuthenticationForm):
    """User name and password; repeated failures delay the next attempt."""

    blocked: Blocked | None = None

    def clean(self) -> dict[str, Any]:
        """Verify the password unless the account or the address has to wait."""
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if not name or not password or self.request is None:
            return self.cleaned_data
        outcome = verify_password(name, password, address=self.request.META[ADDRESS])
        if isinstance(outcome, Verified):
            self.user_cache = outcome.user
            return self.cleaned_data
        if isinstance(outcome, Blocked):
            self.blocked = outcome
            raise ValidationError(f"Try again in {wait_text(outcome.wait_s)}.", code="blocked")
        raise self.get_invalid_login_error()


class SignInView(LoginView):
    """The page to sign in."""

    template_name = "dashboard/login.html"
    redirect_authenticated_user = True
    authentication_form = SignInForm

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Begin a session."""
        user, request = form.get_user(), self.request
        with transaction.atomic():
            login(request, user)
            identify_actor(user.pk, user.username)
            begin_session(
                user,
                session_key=request.session.session_key or "",
                address=request.META[ADDRESS],
                user_agent=request.META.get("HTTP_USER_AGENT", ""),
            )
        return HttpResponseRedirect(self.get_success_url())

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Explain the refusal; 429 if the next attempt has to wait."""
        response = self.render_to_response(self.get_context_data(form=form))
        if isinstance(form, SignInForm) and form.blocked is not None:
            response.status_code = 429
            response["Retry-After"] = str(max(1, int(form.blocked.wait_s + 0.999)))
        return response


class SignOutView(LogoutView):
    """The end of a session."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """End the session and record it."""
        key, user = request.session.session_key, request.user
        if key is not None and user.is_authenticated:
            identify_actor(user.pk, user.get_username())
            end_session(key)
        return super().post(request, *args, **kwargs)
