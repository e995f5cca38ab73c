"""Middleware for WSGI: Flask, Django, Pyramid, Bottle and others."""

from __future__ import annotations

import http
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from ._client import Stint
from ._guard import Guard, Incoming, guard_of, quoted_path
from ._protocol import Check, Decision, StintError, StintOutage

Environ = Dict[str, Any]
DECISION = "stint.decision"  # the decision by which a request was let through, in the environ


def incoming(environ: Environ) -> Incoming:
    """Returns a request of WSGI."""
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return Incoming(
        method=environ.get("REQUEST_METHOD", "GET"),
        path=quoted_path(path, "latin-1") or "/",
        host=headers.get("host"),
        agent=headers.get("user-agent"),
        address=environ.get("REMOTE_ADDR", ""),
        headers=headers,
        raw=environ,
    )


class StintMiddleware:
    """Asks about each request, and answers a refused one itself: app.wsgi_app = StintMiddleware(app.wsgi_app, stint).
    The options are those of a Guard: key, policy, cost, source, meta, skip, outcome, report_status and on_error."""

    def __init__(self, app: Callable[..., Iterable[bytes]], stint: Stint, **options: Any) -> None:
        if not isinstance(stint, Stint):
            raise TypeError("stint must be a Stint")
        self.app = app
        self.stint = stint
        self.guard: Guard = guard_of(options)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = incoming(environ)
        if self.guard.skip is not None and self.guard.skip(request):
            return self.app(environ, start_response)
        check = self.guard.check(request)
        try:
            decision = self._ask(check)
            refusal = self.guard.decided(request, decision)
        except StintError as error:
            refusal = self.guard.mistaken(request, error)
        if refusal is not None:
            start_response(f"{refusal.status} {http.HTTPStatus(refusal.status).phrase}", refusal.headers)
            return [refusal.body]
        environ[DECISION] = decision
        status: List[int] = []

        def start(line: str, headers: List[Tuple[str, str]], exc_info: Optional[Any] = None) -> Any:
            status[:] = [int(line.split(" ", 1)[0])]
            return start_response(line, headers + list(decision.headers.items()), exc_info)

        if self.guard.outcome is None and not self.guard.report_status:
            return self.app(environ, start)
        try:
            response = self.app(environ, start)
        except Exception:
            self._report(request, check, [500])
            raise
        return _Reported(response, lambda: self._report(request, check, status or [500]))

    def _ask(self, check: Check) -> Decision:
        return self.stint.check(
            check.key, policy=check.policy, cost=check.cost, source=check.source, meta=check.meta, request=check.request
        )  # fmt: skip

    def _report(self, request: Incoming, check: Check, status: List[int]) -> None:
        self.guard.answered(self.stint.report_soon, request, check, status[0])
        reports = self.guard.reports(request, check, status[0])
        if not reports:
            return
        try:
            self.guard.results(request, self.stint.report_many(reports))
        except (StintError, StintOutage) as error:
            self.guard.failed(error, request)


class _Reported:
    """A response that is reported once it was sent, or broken off: when the server closes it."""

    def __init__(self, response: Iterable[bytes], report: Callable[[], None]) -> None:
        self._response = response
        self._report: Optional[Callable[[], None]] = report

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._response)

    def close(self) -> None:
        try:
            close = getattr(self._response, "close", None)
            if close is not None:
                close()
        finally:
            report, self._report = self._report, None
            if report is not None:
                report()
