"""A hook for the proxy of LiteLLM: each call holds the tokens that it may take, and settles those that it took."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
import uuid
from collections import OrderedDict
from typing import Any, AsyncIterator, Callable, List, Mapping, MutableMapping, Optional, Sequence, Union

from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger

from ._aio import AsyncStint
from ._protocol import Key, StintError, StintOutage

MOST_OPEN = 100_000  # calls that are remembered; the holds of those that are forgotten expire
_log = logging.getLogger(__name__)
_DATA_URL = re.compile(r"data:[^,\"]*,[^\"\\]*")


def keys_of(user: Any, data: Mapping[str, Any]) -> List[str]:
    """Returns the keys of a call: its team, if it has one, its virtual key (a hash) and its model. All are charged or none, each under the policy
    that matches it."""
    team, key = getattr(user, "team_id", None), getattr(user, "token", None) or getattr(user, "api_key", None)
    named = [("team", team), ("llm-key", key), ("model", data.get("model"))]
    return [f"{kind}:{value}" for kind, value in named if value]


def estimate(data: Mapping[str, Any], default_tokens: int = 1024) -> int:
    """Returns the tokens that a call may take: a quarter of its characters, without those of files in data: URLs, and the largest of what it says that
    the answer may have, default_tokens if it says nothing, for each answer."""
    prompt = sum(len(_DATA_URL.sub("", json.dumps(data[name], default=str))) for name in ("messages", "prompt", "input") if name in data) // 4
    most = [data[name] for name in ("max_tokens", "max_completion_tokens", "max_output_tokens") if isinstance(data.get(name), int) and data[name] > 0]
    answers = data["n"] if isinstance(data.get("n"), int) and data["n"] > 1 else 1
    return max(1, prompt + answers * (max(most) if most else default_tokens))


class _Open:
    """What a call holds."""

    def __init__(self, handle: str, hold: float) -> None:
        self.handle = handle
        self.renew_at = time.monotonic() + hold / 2
        self.has_begun = False
        self.tokens = 0  # that attempts took which failed


class StintHook(CustomLogger):
    """Name an instance in litellm_settings.callbacks of the proxy. The policies of the keys must have a unit ("1M tokens/1d"), a rule such as "16 concurrent", or both.

    key and estimate say whom a call is charged to and what it may take; hold is for how many seconds it is held without a renewal.
    """

    def __init__(
        self,
        stint: AsyncStint,
        *,
        key: Callable[[Any, Mapping[str, Any]], Sequence[Union[str, Key]]] = keys_of,
        estimate: Callable[[Mapping[str, Any]], int] = estimate,
        policy: Optional[str] = None,
        hold: int = 600,
    ) -> None:
        super().__init__()
        self._stint, self._key, self._estimate, self._policy, self._hold = stint, key, estimate, policy, hold
        # By the id of a call, which a client may choose, and choose twice.
        self._open: "OrderedDict[str, List[_Open]]" = OrderedDict()

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: MutableMapping[str, Any], call_type: str) -> MutableMapping[str, Any]:
        """Holds what the call may take, or refuses it with 429, 403 or 503."""
        keys = self._key(user_api_key_dict, data)
        if not keys:
            return data
        try:
            decision = await self._stint.check(list(keys), cost=self._estimate(data), hold=f"{self._hold}s", policy=self._policy, source="litellm")
        except StintError as error:
            _log.error("stint: the check of a call is wrong: %s", error)
            raise HTTPException(400, {"error": f"the call cannot be counted: {error}"}) from error
        if not decision.allowed:
            status = {"blocked": 403, "unavailable": 503}.get(decision.decision, 429)
            if decision.retry_after is None:  # waiting does not help
                raise HTTPException(status, {"error": decision.decision})
            wait = max(1, math.ceil(decision.retry_after))
            raise HTTPException(status, {"error": f"{decision.decision}: again in {wait} s"}, {"Retry-After": str(wait)})
        if decision.hold is not None and decision.hold.handle:
            call = data.setdefault("litellm_call_id", str(uuid.uuid4()))
            self._open.setdefault(str(call), []).append(_Open(decision.hold.handle, self._hold))
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return data

    def _find(self, call: Any) -> Optional[_Open]:
        found = self._open.get(str(call))
        return found[0] if found else None

    async def async_log_pre_api_call(self, model: Any, messages: Any, kwargs: Mapping[str, Any]) -> None:
        held = self._find(kwargs.get("litellm_call_id"))
        if held is not None:
            held.has_begun = True

    async def async_log_success_event(self, kwargs: Mapping[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Settles the tokens that the call took, none if the answer came from the cache."""
        await self._settle(kwargs.get("litellm_call_id"), 0 if kwargs.get("cache_hit") else _tokens(kwargs))

    async def async_log_failure_event(self, kwargs: Mapping[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Remembers the tokens of an attempt that failed: the proxy may try again, under the same hold."""
        held = self._find(kwargs.get("litellm_call_id"))
        if held is not None:
            held.tokens += _tokens(kwargs) or 0

    async def async_post_call_failure_hook(self, request_data: Mapping[str, Any], original_exception: Exception, user_api_key_dict: Any, traceback_str: Optional[str] = None) -> None:
        """Settles the tokens that the attempts of a call took that has failed, or that another hook refused. A call whose caller has gone is charged as
        it was held: what the provider bills is not known."""
        held = self._find(request_data.get("litellm_call_id"))
        if held is None:
            return
        is_cancelled = isinstance(original_exception, asyncio.CancelledError) or getattr(original_exception, "status_code", None) == 499
        await self._settle(request_data.get("litellm_call_id"), None if is_cancelled and held.has_begun else 0)

    async def async_post_call_streaming_iterator_hook(self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: Mapping[str, Any]) -> AsyncIterator[Any]:
        """Renews the hold while an answer is streamed. A stream whose reader goes away is charged as it was held: what the
        provider bills for it is not known."""
        call, is_complete = request_data.get("litellm_call_id"), False
        try:
            async for item in response:
                await self._renew(call)
                yield item
            is_complete = True
        finally:
            if not is_complete:
                # The reader has gone, which may cancel this task.
                await asyncio.shield(asyncio.ensure_future(self._settle(call, None)))

    async def _renew(self, call: Any) -> None:
        held = self._find(call)
        if held is None or time.monotonic() < held.renew_at:
            return
        held.renew_at = time.monotonic() + self._hold / 2
        try:
            await self._stint.extend(held.handle, f"{self._hold}s")
        except (StintError, StintOutage) as error:
            _log.warning("stint: a hold is not renewed: %s", error)

    async def _settle(self, call: Any, tokens: Optional[int]) -> None:
        """Settles the hold of a call once, as it was held if tokens is None."""
        found = self._open.get(str(call))
        if not found:
            return
        held = found.pop(0)
        if not found:
            del self._open[str(call)]
        if tokens is not None:
            tokens += held.tokens
        for pause in (0.2, 1.0, 4.0, None):
            try:
                await self._stint.settle(held.handle, tokens)
                return
            except (StintError, StintOutage) as error:
                if isinstance(error, StintError) or pause is None:  # an unsettled hold expires and stays charged
                    _log.warning("stint: a hold is not settled: %s", error)
                    return
            await asyncio.sleep(pause)


def _tokens(kwargs: Mapping[str, Any]) -> Optional[int]:
    """Returns what a call took, None if it is not known."""
    logged = kwargs.get("standard_logging_object") or {}
    total = logged.get("total_tokens") if isinstance(logged, Mapping) else None
    return total if isinstance(total, int) and total >= 0 else None
