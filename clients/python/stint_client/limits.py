"""A storage for the package limits, and so for flask-limiter and slowapi: import this module, then use the URL
stint://127.0.0.1:8080, or async+stint:// for limits.aio.

The key of "5 per minute" is limits:5/60s: and the identifiers with slashes between. Stint decides by the policy that matches
it, which stint-admin policy set NAME --match 'limits:5/60s:*' --rule 5/60s makes. If the policy has no such rule, the first
check raises a LimitMismatch, which names that command: a limit in the program and another one on the server is a mistake. With
?limits=server the policy on the server decides, whatever the program says.

The URL: stint://:TOKEN@HOST:PORT/PATH?policy=NAME&on_outage=raise|open|closed&timeout=0.1&limits=server, stints:// for TLS. The
default of on_outage is raise: flask-limiter has swallow_errors and in_memory_fallback for that. The options admin_url and
admin_token (storage_options) are needed by clear alone. reset is not possible: it would lift the limits of other programs."""

from __future__ import annotations

import math
import threading
import time
import urllib.parse
from typing import Any, Dict, Optional, Tuple, Type, Union

import limits.aio.storage
import limits.storage

from ._aio import AsyncStint
from ._client import Stint
from ._guard import hash_of
from ._protocol import Check, Decision, Rule, StintOutage

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "month": 30 * 86400, "year": 12 * 30 * 86400}
_MAX_KEY = 512  # bytes


class LimitMismatch(ValueError):
    """The policy on the server has not the limit that the program names."""


class _Limit:
    """A limit and a key, as limits joins them: NAMESPACE/IDENTIFIER.../AMOUNT/MULTIPLES/GRANULARITY."""

    def __init__(self, joined: str) -> None:
        try:
            rest, amount, multiples, granularity = joined.rsplit("/", 3)
            self.amount = int(amount)
            self.window = int(multiples) * _SECONDS[granularity]
        except (ValueError, KeyError):
            raise ValueError(f"{joined!r} is no key of the package limits") from None
        prefix = f"limits:{self.amount}/{self.window}s:"
        rest = rest if rest.isprintable() else hash_of(rest)
        if len((prefix + rest).encode("utf-8", "surrogatepass")) > _MAX_KEY:
            rest = hash_of(rest)
        self.prefix = prefix
        self.key = prefix + rest


class _Settings:
    def __init__(self, uri: str, options: Dict[str, Any]) -> None:
        parts = urllib.parse.urlsplit(uri.replace("async+", "", 1))
        given = {**dict(urllib.parse.parse_qsl(parts.query)), **options}
        self.policy: Optional[str] = given.pop("policy", None)
        self.source: Optional[str] = given.pop("source", None)
        limit_choice = given.pop("limits", "program")
        if limit_choice not in ("program", "server"):
            raise ValueError("limits must be program or server")
        self.is_server_limit = limit_choice == "server"
        self.client: Dict[str, Any] = {
            "url": f"{'https' if parts.scheme == 'stints' else 'http'}://{parts.netloc.rpartition('@')[2]}{parts.path}",
            "on_outage": given.pop("on_outage", "raise"),
            "timeout": float(given.pop("timeout", 0.1)),
            "connections": int(given.pop("connections", 64)),
            "token": given.pop("token", None) or (urllib.parse.unquote(parts.password) if parts.password else None),
        }
        for name in ("admin_url", "admin_token", "ssl_context"):
            if name in given:
                self.client[name] = given.pop(name)
        self.wrap = {name: given.pop(name) for name in ("wrap_exceptions",) if name in given}
        if given:
            raise ValueError(f"unknown options of the storage stint: {', '.join(sorted(given))}")

    def never_fits(self, limit: _Limit, amount: int) -> bool:
        """Reports whether a hit is never allowed, which to Stint is a mistake and to limits a refusal."""
        return amount > limit.amount and not self.is_server_limit

    def check(self, limit: _Limit, amount: int = 1, peek: bool = False) -> Check:
        return Check(limit.key, policy=self.policy, cost=amount, peek=peek, source=self.source)

    def rule(self, limit: _Limit, decision: Decision) -> Optional[Rule]:
        """Returns the rule of a decision that is the limit, None if the server did not decide by rules."""
        found = [r for r in decision.rules or () if r.limit == limit.amount and r.window == limit.window]
        if found:
            return found[0]
        if not decision.rules or self.is_server_limit or decision.raw.get("own_limit"):
            # By its own limit, a plan, a block, an exemption or an outage, or as the URL says.
            return min(decision.rules or (), key=lambda r: r.remaining, default=None)
        raise LimitMismatch(
            f"the policy {decision.policy} decides about {limit.prefix}* and has not the limit {limit.amount}/{limit.window}s: make one by"
            f" stint-admin policy set NAME --match '{limit.prefix}*' --rule {limit.amount}/{limit.window}s, or say limits=server in the URL"
        )

    def used(self, limit: _Limit, decision: Decision, cost: int) -> int:
        """Returns how much counts after a hit of cost, above the limit if it was refused."""
        rule = self.rule(limit, decision)
        if not decision.allowed:
            return limit.amount + max(1, cost)
        return cost if rule is None else min(limit.amount, max(cost, limit.amount - rule.remaining))

    def peeked(self, limit: _Limit, decision: Decision) -> int:
        """Returns how much counts now, the whole limit if one more would be refused."""
        rule = self.rule(limit, decision)
        if not decision.allowed:
            return limit.amount
        return 0 if rule is None else min(limit.amount - 1, max(0, limit.amount - rule.remaining))

    def resets_in(self, limit: _Limit, decision: Decision) -> float:
        """Returns in how many seconds one more is allowed or, if it is now, the whole limit."""
        rule = self.rule(limit, decision)
        if not decision.allowed:
            return float(limit.window) if decision.retry_after is None else decision.retry_after
        return 0.0 if rule is None else rule.reset_after


class _Last(threading.local):
    """The last peek of a thread: limits asks for the count and the time of one answer in two calls."""

    def __init__(self) -> None:
        self.key = ""
        self.decision: Optional[Decision] = None

    def keep(self, key: str, decision: Decision) -> Decision:
        self.key, self.decision = key, decision
        return decision

    def take(self, key: str) -> Optional[Decision]:
        decision, self.decision = (self.decision, None) if self.key == key else (None, None)
        return decision


class StintStorage(limits.storage.Storage, limits.storage.MovingWindowSupport):
    """limits.storage for Stint. Every strategy has the same exact window: that of the policy."""

    STORAGE_SCHEME = ["stint", "stints"]

    def __init__(self, uri: str, **options: Any) -> None:
        self._settings = _Settings(uri, options)
        self._stint = Stint(**self._settings.client)
        self._last = _Last()
        super().__init__(uri, **self._settings.wrap)

    @property
    def base_exceptions(self) -> Union[Type[Exception], Tuple[Type[Exception], ...]]:
        return StintOutage

    def _ask(self, check: Check) -> Decision:
        return self._stint.check(check.key, policy=check.policy, cost=check.cost, peek=check.peek, source=check.source)

    def _peek(self, limit: _Limit) -> Decision:
        return self._last.keep(limit.key, self._ask(self._settings.check(limit, peek=True)))

    def incr(self, key: str, expiry: int, *elastic: Any, amount: int = 1, **options: Any) -> int:
        _refuse_elastic(elastic, options)
        limit = _Limit(key)
        if self._settings.never_fits(limit, amount):
            return limit.amount + amount
        return self._settings.used(limit, self._ask(self._settings.check(limit, amount)), amount)

    def get(self, key: str) -> int:
        limit = _Limit(key)
        return self._settings.peeked(limit, self._peek(limit))

    def get_expiry(self, key: str) -> int:
        limit = _Limit(key)
        decision = self._last.take(limit.key) or self._peek(limit)
        return math.ceil(time.time() + self._settings.resets_in(limit, decision))

    def check(self) -> bool:
        try:
            self._stint.check("limits:check", peek=True)
        except StintOutage:
            return False
        return True

    def reset(self) -> Optional[int]:
        raise NotImplementedError("all limits on a server cannot be lifted at once; clear a key")

    def clear(self, key: str) -> None:
        self._stint.reset(_Limit(key).key)

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self.incr(key, expiry, amount=amount) <= limit

    def get_moving_window(self, key: str, limit: int, expiry: int) -> Tuple[int, int]:
        of = _Limit(key)
        decision = self._peek(of)
        return math.ceil(time.time() + self._settings.resets_in(of, decision) - expiry), self._settings.peeked(of, decision)

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self.acquire_entry(key, limit, expiry, amount)

    def get_sliding_window(self, key: str, expiry: int) -> Tuple[int, float, int, float]:
        limit = _Limit(key)
        decision = self._peek(limit)
        return 0, 0.0, self._settings.peeked(limit, decision), self._settings.resets_in(limit, decision)

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        self.clear(key)


class AsyncStintStorage(limits.aio.storage.Storage, limits.aio.storage.MovingWindowSupport):
    """limits.aio.storage for Stint."""

    STORAGE_SCHEME = ["async+stint", "async+stints"]

    def __init__(self, uri: str, **options: Any) -> None:
        self._settings = _Settings(uri, options)
        self._stint = AsyncStint(**self._settings.client)
        super().__init__(uri, **self._settings.wrap)

    @property
    def base_exceptions(self) -> Union[Type[Exception], Tuple[Type[Exception], ...]]:
        return StintOutage

    async def _ask(self, check: Check) -> Decision:
        return await self._stint.check(check.key, policy=check.policy, cost=check.cost, peek=check.peek, source=check.source)

    async def _peek(self, limit: _Limit) -> Decision:
        return await self._ask(self._settings.check(limit, peek=True))

    async def incr(self, key: str, expiry: int, *elastic: Any, amount: int = 1, **options: Any) -> int:
        _refuse_elastic(elastic, options)
        limit = _Limit(key)
        if self._settings.never_fits(limit, amount):
            return limit.amount + amount
        return self._settings.used(limit, await self._ask(self._settings.check(limit, amount)), amount)

    async def get(self, key: str) -> int:
        limit = _Limit(key)
        return self._settings.peeked(limit, await self._peek(limit))

    async def get_expiry(self, key: str) -> int:
        limit = _Limit(key)
        return math.ceil(time.time() + self._settings.resets_in(limit, await self._peek(limit)))

    async def check(self) -> bool:
        try:
            await self._stint.check("limits:check", peek=True)
        except StintOutage:
            return False
        return True

    async def reset(self) -> Optional[int]:
        raise NotImplementedError("all limits on a server cannot be lifted at once; clear a key")

    async def clear(self, key: str) -> None:
        await self._stint.reset(_Limit(key).key)

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return await self.incr(key, expiry, amount=amount) <= limit

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> Tuple[int, int]:
        of = _Limit(key)
        decision = await self._peek(of)
        return math.ceil(time.time() + self._settings.resets_in(of, decision) - expiry), self._settings.peeked(of, decision)

    async def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return await self.acquire_entry(key, limit, expiry, amount)

    async def get_sliding_window(self, key: str, expiry: int) -> Tuple[int, float, int, float]:
        limit = _Limit(key)
        decision = await self._peek(limit)
        return 0, 0.0, self._settings.peeked(limit, decision), self._settings.resets_in(limit, decision)

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        await self.clear(key)


def _refuse_elastic(positional: Tuple[Any, ...], options: Dict[str, Any]) -> None:
    """limits before 5.0 passes elastic_expiry, for a strategy whose window each hit prolongs."""
    if (positional and positional[0]) or options.get("elastic_expiry"):
        raise NotImplementedError("Stint has no window that each hit prolongs; use fixed-window or moving-window")
