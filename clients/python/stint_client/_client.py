from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from typing import Any, List, Mapping, Optional, Sequence, TypeVar, Union

from ._http import Answer, AnswerReader, BrokenAnswer, ClosedWithoutAnswer, Target
from ._protocol import Call, Calls, Check, Decision, Key, Report, Reported, SettledHold, StintError, StintOutage, valid_token
from ._queue import ReportQueue

T = TypeVar("T")
_SOON_TIMEOUT = 1.0  # seconds, at least, for reports that nobody waits for


class _Pool:
    """The connections to one listener. A thread takes one, and gives it back if it may be used again."""

    def __init__(self, target: Target, connections: int, context: Optional[ssl.SSLContext]) -> None:
        self.target = target
        self._context = context or (ssl.create_default_context() if target.scheme == "https" else None)
        self._idle: List[socket.socket] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(connections)
        self._connections = connections
        self._process = os.getpid()

    def exchange(self, request: bytes, deadline: float) -> Answer:
        """Sends a request and returns its answer, both before the deadline. A server closes idle connections when it
        likes, also at the moment of a new request: that request is sent again on a new one."""
        if self._process != os.getpid():  # connections are not shared with the process that this one was forked from
            self.__init__(self.target, self._connections, self._context)  # type: ignore[misc]
        if not self._free.acquire(timeout=_left(deadline)):
            raise TimeoutError("all connections are busy")
        try:
            connection = self._take()
            if connection is not None:
                try:
                    return self._converse(connection, request, deadline)
                except (ConnectionError, ClosedWithoutAnswer):
                    self.close()  # the others are likely to be as old
            return self._converse(self._connect(deadline), request, deadline)
        finally:
            self._free.release()

    def _take(self) -> Optional[socket.socket]:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                readable, _, _ = select.select([connection], [], [], 0) if connection.fileno() < 1024 else ([], [], [])
                if not readable:
                    return connection
                connection.close()  # the server closed it
        return None

    def _connect(self, deadline: float) -> socket.socket:
        # Each address gets what is left of the time. How long a name takes to be found is up to the system.
        failed: OSError = OSError("no address was found")
        for *address, _, to in socket.getaddrinfo(self.target.host, self.target.port, type=socket.SOCK_STREAM):
            connection = socket.socket(*address)
            try:
                connection.settimeout(_left(deadline))
                connection.connect(to)
                break
            except OSError as error:
                connection.close()
                failed = error
        else:
            raise failed
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                connection.settimeout(_left(deadline))
                return self._context.wrap_socket(connection, server_hostname=self.target.host)
        except BaseException:
            connection.close()
            raise
        return connection

    def _converse(self, connection: socket.socket, request: bytes, deadline: float) -> Answer:
        reader = AnswerReader()
        try:
            connection.settimeout(_left(deadline))
            connection.sendall(request)
            is_complete = False
            while not is_complete:
                connection.settimeout(_left(deadline))
                try:
                    part = connection.recv(65536)
                except ConnectionError as error:
                    if reader.has_begun:
                        raise BrokenAnswer("the answer ends early") from error
                    raise
                is_complete = reader.feed(part)
        except BaseException:
            connection.close()
            raise
        if reader.reusable:
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()
        return reader.answer()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("Stint did not answer in time")
    return left


class Stint:
    """Asks one Stint server, or several behind one address, from any number of threads. Create one for the whole
    program: it keeps the connections.

    url is that of the check listener, for example http://127.0.0.1:8080, or of the path below which a proxy serves it.
    on_outage says what a check is answered while Stint cannot be reached, does not answer in time or refuses the token:
    "open" allows it, "closed" refuses it with 503, "raise" raises a StintOutage. timeout is how many seconds a call may
    take in all. admin_url and admin_token are needed by reset alone."""

    def __init__(
        self,
        url: str,
        *,
        on_outage: str,
        token: Optional[str] = None,
        timeout: float = 0.1,
        connections: int = 64,
        ssl_context: Optional[ssl.SSLContext] = None,
        admin_url: Optional[str] = None,
        admin_token: Optional[str] = None,
    ) -> None:
        if timeout <= 0:
            raise ValueError("timeout must be seconds above 0")
        self._calls = Calls(on_outage)
        self._timeout = timeout
        self._pool = _Pool(Target.of(url), connections, ssl_context)
        self._admin = None if admin_url is None else _Pool(Target.of(admin_url), connections, ssl_context)
        self._token = valid_token(token)
        self._admin_token = valid_token(admin_token)
        self._soon = ReportQueue(lambda reports: self._run(self._calls.reports(reports), max(timeout, _SOON_TIMEOUT)))

    def check(
        self,
        key: Union[str, Sequence[Union[str, Key]]],
        *,
        policy: Optional[str] = None,
        cost: Optional[int] = None,
        peek: bool = False,
        detail: Optional[str] = None,
        charge: Optional[str] = None,
        source: Optional[str] = None,
        meta: Optional[Mapping[str, Any]] = None,
        request: Optional[Mapping[str, Any]] = None,
        values: Optional[Mapping[str, Any]] = None,
        idempotency_key: Optional[str] = None,
        hold: Optional[str] = None,
    ) -> Decision:
        """Asks about one key or, all charged or none, about several. Raises a StintError where the check is wrong."""
        return self._run(self._calls.check(Check(key, policy, cost, peek, detail, charge, source, meta, request, values, idempotency_key, hold)))

    def check_many(self, checks: Sequence[Check]) -> List[Union[Decision, StintError]]:
        """Asks up to 1,000 checks, each on its own, in one call. The answers are in their order."""
        return self._run(self._calls.batch(checks))

    def report(
        self,
        key: str,
        outcome: Optional[str] = None,
        *,
        request: Optional[Mapping[str, Any]] = None,
        values: Optional[Mapping[str, Any]] = None,
        at: Optional[str] = None,
        source: Optional[str] = None,
        meta: Optional[Mapping[str, Any]] = None,
        id: Optional[str] = None,
        status: Optional[int] = None,
    ) -> Reported:
        """Reports the outcome of a request. Raises a StintError where the report is wrong, and a StintOutage while Stint
        cannot be reached."""
        return self._run(self._calls.report(Report(key, outcome, request, values, at, source, meta, id, status)))

    def report_many(self, reports: Sequence[Report]) -> List[Union[Reported, StintError]]:
        """Reports up to 1,000 outcomes in one call."""
        return self._run(self._calls.reports(reports))

    def report_soon(self, report: Report) -> None:
        """Reports an outcome without waiting for it: a thread sends reports together some 0.2 s later, at most 4,096 wait,
        and what cannot be sent is dropped."""
        self._soon.put(report)

    def flush(self) -> None:
        """Waits until what report_soon took has been sent."""
        self._soon.flush()

    @property
    def dropped(self) -> int:
        """How many reports of report_soon were not sent."""
        return self._soon.dropped

    def settle(self, handle: str, cost: Optional[int] = None) -> SettledHold:
        """Settles a hold with what was used, all of it if cost is None. May be repeated. Raises a StintError where it was
        settled otherwise (409) or has expired (410), and a StintOutage while Stint cannot be reached."""
        return self._run(self._calls.settle(handle, cost))

    def release(self, handle: str) -> SettledHold:
        """Gives back all that is held, as if it had never been charged."""
        return self._run(self._calls.release(handle))

    def extend(self, handle: str, hold: str) -> SettledHold:
        """Renews a hold for this time from now, such as "10m"."""
        return self._run(self._calls.extend(handle, hold))

    def reset(self, key: str) -> None:
        """Forgets what a key has used, under all policies. Needs admin_url and a token of the scope operate."""
        self._run(self._calls.reset(key))

    def close(self) -> None:
        """Closes the idle connections."""
        self._pool.close()
        if self._admin is not None:
            self._admin.close()

    def __enter__(self) -> "Stint":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _run(self, call: Call[T], timeout: Optional[float] = None) -> T:
        pool, token = (self._admin, self._admin_token) if call.is_admin else (self._pool, self._token)
        if pool is None:
            raise ValueError("reset needs admin_url and admin_token")
        request = pool.target.request(call.method, call.path, call.encoded(), token)
        try:
            try:
                return call.result(pool.exchange(request, time.monotonic() + (timeout or self._timeout)))
            except OSError as error:
                raise StintOutage(f"Stint could not be asked: {error}") from error
        except StintOutage as outage:
            return call.fail(outage)
