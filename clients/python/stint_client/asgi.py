"""Middleware for ASGI: Starlette, FastAPI, Litestar, Django and others."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Dict, MutableMapping

from ._aio import AsyncStint
from ._guard import Guard, Incoming, Refusal, guard_of, quoted_path
from ._protocol import Check, Decision, StintError, StintOutage

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
DECISION = "stint.decision"  # the decision by which a request was let through, in the scope


def incoming(scope: Scope) -> Incoming:
    """Returns a request of ASGI."""
    headers: Dict[str, str] = {}
    for raw_name, raw_value in scope.get("headers", ()):
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    path, root = scope.get("path", ""), scope.get("root_path", "")
    if root and not path.startswith(root):  # servers before ASGI 2.3 leave it out
        path = root + path
    client = scope.get("client")
    return Incoming(
        method=scope.get("method", "GET"),
        path=quoted_path(path) or "/",
        host=headers.get("host"),
        agent=headers.get("user-agent"),
        address=client[0] if client else "",
        headers=headers,
        raw=scope,
    )


class StintMiddleware:
    """Asks about each request and WebSocket, and answers a refused one itself: app.add_middleware(StintMiddleware,
    stint=stint). The options are those of a Guard: key, policy, cost, source, meta, skip, outcome, report_status and
    on_error."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], stint: AsyncStint, **options: Any) -> None:
        if not isinstance(stint, AsyncStint):
            raise TypeError("stint must be an AsyncStint")
        self.app = app
        self.stint = stint
        self.guard: Guard = guard_of(options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        request = incoming(scope)
        if self.guard.skip is not None and self.guard.skip(request):
            return await self.app(scope, receive, send)
        check = self.guard.check(request)
        try:
            decision = await self._ask(check)
            refusal = self.guard.decided(request, decision)
        except StintError as error:
            refusal = self.guard.mistaken(request, error)
        if refusal is not None:
            return await _refuse(scope, receive, send, refusal)
        scope[DECISION] = decision
        status = 0  # until the application answers

        async def started(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.accept"):
                status = message.get("status", 101)
                more = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in decision.headers.items()]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        try:
            await self.app(scope, receive, started)
        except Exception:
            status = status or 500
            raise
        finally:
            if status != 0:
                self.guard.answered(self.stint.report_soon, request, check, status)
            if self.guard.outcome is not None:
                # Also where the client has gone, which cancels this task.
                await asyncio.shield(self._report(request, check, status or 500))

    async def _ask(self, check: Check) -> Decision:
        return await self.stint.check(
            check.key, policy=check.policy, cost=check.cost, source=check.source, meta=check.meta, request=check.request
        )  # fmt: skip

    async def _report(self, request: Incoming, check: Check, status: int) -> None:
        reports = self.guard.reports(request, check, status)
        if not reports:
            return
        try:
            self.guard.results(request, await self.stint.report_many(reports))
        except (StintError, StintOutage) as error:
            self.guard.failed(error, request)


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in refusal.headers]
    kind = "http.response"
    if scope["type"] == "websocket":
        await receive()  # websocket.connect
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1008})  # before it was accepted: the server answers 403
            return
        kind = "websocket.http.response"
    await send({"type": f"{kind}.start", "status": refusal.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": refusal.body})
