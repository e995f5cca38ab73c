from __future__ import annotations

import asyncio
import ssl
import weakref
from typing import Any, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from ._client import Stint
from ._http import Answer, AnswerReader, BrokenAnswer, ClosedWithoutAnswer, Target
from ._protocol import Call, Calls, Check, Decision, Key, Report, Reported, SettledHold, StintError, StintOutage, valid_token

T = TypeVar("T")
_Connection = Tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _OfLoop:
    """The connections of one event loop: they cannot be used in another."""

    def __init__(self, connections: int) -> None:
        self.idle: List[_Connection] = []
        self.free = asyncio.Semaphore(connections)


class _Pool:
    def __init__(self, target: Target, connections: int, context: Optional[ssl.SSLContext]) -> None:
        self.target = target
        self._connections = connections
        self._context = context or (ssl.create_default_context() if target.scheme == "https" else None)
        self._loops: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop]" = weakref.WeakKeyDictionary()

    async def exchange(self, request: bytes) -> Answer:
        """Sends a request and returns its answer. A server closes idle connections when it likes, also at the moment of
        a new request: that request is sent again on a new one."""
        loop = asyncio.get_running_loop()
        of_loop = self._loops.get(loop)
        if of_loop is None:
            of_loop = self._loops[loop] = _OfLoop(self._connections)
        async with of_loop.free:
            while of_loop.idle:
                reader, writer = of_loop.idle.pop()
                if reader.at_eof() or writer.is_closing():
                    writer.close()
                    continue
                try:
                    return await self._converse(of_loop, (reader, writer), request)
                except (ConnectionError, ClosedWithoutAnswer):
                    await self.close()  # the others are likely to be as old
            connection = await asyncio.open_connection(self.target.host, self.target.port, ssl=self._context)
            return await self._converse(of_loop, connection, request)

    async def _converse(self, of_loop: _OfLoop, connection: _Connection, request: bytes) -> Answer:
        reader, writer = connection
        answer = AnswerReader()
        try:
            writer.write(request)
            await writer.drain()
            is_complete = False
            while not is_complete:
                try:
                    part = await reader.read(65536)
                except ConnectionError as error:
                    if answer.has_begun:
                        raise BrokenAnswer("the answer ends early") from error
                    raise
                is_complete = answer.feed(part)
        except BaseException:  # a cancelled call leaves a connection in the middle of an answer
            writer.transport.abort()
            raise
        if answer.reusable:
            of_loop.idle.append(connection)
        else:
            writer.close()
        return answer.answer()

    async def close(self) -> None:
        of_loop = self._loops.get(asyncio.get_running_loop())
        while of_loop is not None and of_loop.idle:
            of_loop.idle.pop()[1].close()


class AsyncStint:
    """The same as Stint, for asyncio. One may be used in several event loops; each has connections of its own."""

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
        # Its thread sends reports that nobody waits for, also after an event loop has ended.
        self._soon = Stint(url, on_outage=on_outage, token=token, timeout=timeout, connections=1, ssl_context=ssl_context)

    async def check(
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
        check = Check(key, policy, cost, peek, detail, charge, source, meta, request, values, idempotency_key, hold)
        return await self._run(self._calls.check(check))

    async def check_many(self, checks: Sequence[Check]) -> List[Union[Decision, StintError]]:
        """Asks up to 1,000 checks, each on its own, in one call. The answers are in their order."""
        return await self._run(self._calls.batch(checks))

    async def report(
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
        return await self._run(self._calls.report(Report(key, outcome, request, values, at, source, meta, id, status)))

    async def report_many(self, reports: Sequence[Report]) -> List[Union[Reported, StintError]]:
        """Reports up to 1,000 outcomes in one call."""
        return await self._run(self._calls.reports(reports))

    def report_soon(self, report: Report) -> None:
        """Reports an outcome without waiting for it. See Stint.report_soon."""
        self._soon.report_soon(report)

    async def flush(self) -> None:
        """Waits until what report_soon took has been sent."""
        await asyncio.get_running_loop().run_in_executor(None, self._soon.flush)

    @property
    def dropped(self) -> int:
        """How many reports of report_soon were not sent."""
        return self._soon.dropped

    async def settle(self, handle: str, cost: Optional[int] = None) -> SettledHold:
        """Settles a hold with what was used, all of it if cost is None. May be repeated. Raises a StintError where it was
        settled otherwise (409) or has expired (410), and a StintOutage while Stint cannot be reached."""
        return await self._run(self._calls.settle(handle, cost))

    async def release(self, handle: str) -> SettledHold:
        """Gives back all that is held, as if it had never been charged."""
        return await self._run(self._calls.release(handle))

    async def extend(self, handle: str, hold: str) -> SettledHold:
        """Renews a hold for this time from now, such as "10m"."""
        return await self._run(self._calls.extend(handle, hold))

    async def reset(self, key: str) -> None:
        """Forgets what a key has used, under all policies. Needs admin_url and a token of the scope operate."""
        await self._run(self._calls.reset(key))

    async def close(self) -> None:
        """Closes the idle connections of the running event loop."""
        self._soon.close()
        await self._pool.close()
        if self._admin is not None:
            await self._admin.close()

    async def __aenter__(self) -> "AsyncStint":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _run(self, call: Call[T]) -> T:
        pool, token = (self._admin, self._admin_token) if call.is_admin else (self._pool, self._token)
        if pool is None:
            raise ValueError("reset needs admin_url and admin_token")
        request = pool.target.request(call.method, call.path, call.encoded(), token)
        try:
            try:
                return call.result(await asyncio.wait_for(pool.exchange(request), self._timeout))
            except asyncio.TimeoutError as error:
                raise StintOutage("Stint could not be asked: it did not answer in time") from error
            except OSError as error:
                raise StintOutage(f"Stint could not be asked: {error}") from error
        except StintOutage as outage:
            return call.fail(outage)
