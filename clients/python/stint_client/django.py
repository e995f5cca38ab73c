"""For Django: add "stint_client.django.StintMiddleware" to MIDDLEWARE, and "stint_client.django.StintConfig" to
INSTALLED_APPS for reports of logins. "stint_client.django.StintBackend" as the first of AUTHENTICATION_BACKENDS refuses logins.

STINT in the settings: url and on_outage, and optionally token, timeout, connections and ssl_context as of Stint;
trusted_proxies, a list for address_key; and key, policy, cost, source, meta, skip, outcome, report_status and on_error of a Guard,
functions of which may be named by their dotted path."""

from __future__ import annotations

import inspect
import logging
from typing import Any, Awaitable, Callable, Dict, List, Optional, Tuple, Union

from django.apps import AppConfig
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from ._aio import AsyncStint
from ._client import Stint
from ._guard import Guard, Incoming, Refusal, address_key, guard_of, login_keys, quoted_path
from ._protocol import Check, Decision, Report, StintError, StintOutage

_log = logging.getLogger("stint_client")
_CLIENT = ("url", "on_outage", "token", "timeout", "connections", "ssl_context")
_FUNCTIONS = ("key", "cost", "meta", "skip", "outcome", "on_error")


class _Configured:
    """What the settings say."""

    def __init__(self, given: Dict[str, Any]) -> None:
        options = dict(given)
        missing = [name for name in ("url", "on_outage") if name not in options]
        if missing:
            raise ImproperlyConfigured(f"the setting STINT needs {' and '.join(missing)}")
        client = {name: options.pop(name) for name in _CLIENT if name in options}
        proxies = options.pop("trusted_proxies", ())
        for name in _FUNCTIONS:
            if isinstance(options.get(name), str):
                options[name] = import_string(options[name])
        self.address = address_key(*proxies)
        options.setdefault("key", self.address)
        options.setdefault("on_error", _logged)
        try:
            self.guard: Guard = guard_of(options)
        except TypeError as error:
            raise ImproperlyConfigured(f"the setting STINT: {error}") from error
        self.stint = Stint(**client)
        self.asynchronous = AsyncStint(**client)


def _logged(error: BaseException, request: Incoming) -> None:
    _log.warning("%s", error)


_current: Optional[Tuple[Dict[str, Any], _Configured]] = None


def configured() -> _Configured:
    """Returns what the settings say; tests may replace them."""
    global _current
    given = getattr(settings, "STINT", None)
    if not isinstance(given, dict):
        raise ImproperlyConfigured("the setting STINT must be a dict with url and on_outage")
    current = _current
    if current is None or current[0] is not given:
        current = _current = (given, _Configured(given))
    return current[1]


def incoming(request: HttpRequest) -> Incoming:
    """Returns a request of Django."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Incoming(
        method=request.method or "GET",
        path=quoted_path(request.path) or "/",
        host=headers.get("host"),
        agent=headers.get("user-agent"),
        address=request.META.get("REMOTE_ADDR", ""),
        headers=headers,
        raw=request,
    )


class StintMiddleware:
    """Asks about each request, and answers a refused one itself. request.stint is the decision of one that was let through."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._of = configured()
        self._is_async = inspect.iscoroutinefunction(get_response)
        if self._is_async:  # by which Django knows that it can be awaited
            mark = getattr(inspect, "markcoroutinefunction", None)
            if mark is not None:
                mark(self)
            else:
                import asyncio.coroutines

                self._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]

    def __call__(self, request: HttpRequest) -> Union[HttpResponse, Awaitable[HttpResponse]]:
        if self._is_async:
            return self._answer_async(request)
        given, guard = incoming(request), self._of.guard
        if guard.skip is not None and guard.skip(given):
            return self.get_response(request)
        check = guard.check(given)
        try:
            decision = self._of.stint.check(check.key, **_options(check))
            refusal = guard.decided(given, decision)
        except StintError as error:
            refusal = guard.mistaken(given, error)
        if refusal is not None:
            return _response(refusal)
        request.stint = decision
        response = _with_headers(self.get_response(request), decision)
        guard.answered(self._of.stint.report_soon, given, check, response.status_code)
        reports = guard.reports(given, check, response.status_code)
        if reports:
            send_reports(reports, given)
        return response

    async def _answer_async(self, request: HttpRequest) -> HttpResponse:
        given, guard = incoming(request), self._of.guard
        if guard.skip is not None and guard.skip(given):
            return await self.get_response(request)
        check = guard.check(given)
        try:
            decision = await self._of.asynchronous.check(check.key, **_options(check))
            refusal = guard.decided(given, decision)
        except StintError as error:
            refusal = guard.mistaken(given, error)
        if refusal is not None:
            return _response(refusal)
        request.stint = decision
        response = _with_headers(await self.get_response(request), decision)
        guard.answered(self._of.asynchronous.report_soon, given, check, response.status_code)
        reports = guard.reports(given, check, response.status_code)
        if reports:
            try:
                guard.results(given, await self._of.asynchronous.report_many(reports))
            except (StintError, StintOutage) as error:
                guard.failed(error, given)
        return response


def _options(check: Check) -> Dict[str, Any]:
    return {"policy": check.policy, "cost": check.cost, "source": check.source, "meta": check.meta, "request": check.request}


def _response(refusal: Refusal) -> HttpResponse:
    response = HttpResponse(refusal.body, status=refusal.status)
    for name, value in refusal.headers:
        response[name] = value
    return response


def _with_headers(response: HttpResponse, decision: Decision) -> HttpResponse:
    for name, value in decision.headers.items():
        response[name] = value
    return response


def send_reports(reports: List[Report], request: Incoming) -> None:
    """Reports, whatever happens: an error is passed to on_error alone."""
    of = configured()
    try:
        of.guard.results(request, of.stint.report_many(reports))
    except Exception as error:  # a receiver's exception would break the login
        of.guard.failed(error, request)


class StintBackend:
    """Refuses logins of addresses and accounts that Stint refuses, before their password is checked: the first of
    AUTHENTICATION_BACKENDS. The keys are those of the preset "login"."""

    def authenticate(self, request: Optional[HttpRequest], **credentials: Any) -> None:
        if request is None:
            return
        given, of = incoming(request), configured()
        keys = login_keys(of.address(given)[len("ip:") :], _account(credentials))
        if not keys:
            return
        try:
            decision = of.stint.check(keys, source=of.guard.source, request=given.attributes)
        except StintError as error:
            of.guard.failed(error, given)
            raise PermissionDenied("Stint could not decide about this login") from error
        if decision.outage is not None:
            of.guard.failed(decision.outage, given)
        if not decision.allowed:
            # Django sends user_login_failed for a refused login, too: that would count itself.
            request._stint_refused = True
            raise PermissionDenied("this login is refused for a time")

    def get_user(self, user_id: Any) -> None:
        return None


def _account(credentials: Dict[str, Any]) -> Optional[str]:
    account = credentials.get(get_user_model().USERNAME_FIELD) or credentials.get("username")
    return str(get_user_model().normalize_username(str(account))) if account else None


def _report_login(request: Optional[HttpRequest], account: Optional[str], outcome: str) -> None:
    if request is None or getattr(request, "_stint_refused", False):
        return
    given, of = incoming(request), configured()
    values = {"account": account} if account else None
    keys = login_keys(of.address(given)[len("ip:") :], account)
    if keys:
        send_reports([Report(key, outcome, request=given.attributes, values=values, source=of.guard.source) for key in keys], given)


def _login_failed(sender: Any, credentials: Dict[str, Any], request: Optional[HttpRequest] = None, **more: Any) -> None:
    _report_login(request, _account(credentials), "login_failed")


def _logged_in(sender: Any, request: Optional[HttpRequest], user: Any, **more: Any) -> None:
    _report_login(request, str(user.get_username()), "login_ok")


class StintConfig(AppConfig):
    """Reports the outcome of each login as login_failed or login_ok, for the keys of the preset "login"."""

    name = "stint_client.django"
    label = "stint_client"

    def ready(self) -> None:
        configured()
        user_login_failed.connect(_login_failed, dispatch_uid="stint_client")
        user_logged_in.connect(_logged_in, dispatch_uid="stint_client")
