"""The conversation with Stint, without the transport: what a call sends, and what its answer means."""

from __future__ import annotations

import dataclasses
import json
import re
import urllib.parse
import uuid
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, TypeVar, Union

from . import _cut
from ._http import Answer

T = TypeVar("T")

ON_OUTAGE = ("open", "closed", "raise")
OUTAGE_RETRY_SECONDS = 1
MAX_BATCH = 1000
_STATUS = {"allowed": 200, "limited": 429, "blocked": 403, "unavailable": 503}
_HEADERS = ("Retry-After", "RateLimit", "RateLimit-Policy")


class StintError(Exception):
    """What Stint answered in place of a decision: the check, the report or the token is wrong."""

    def __init__(self, status: int, problem: Any = None) -> None:
        self.problem: Dict[str, Any] = problem if isinstance(problem, dict) else {}
        self.status = status
        self.code: Optional[str] = self.problem.get("code")
        self.field: Optional[str] = self.problem.get("field")
        detail = self.problem.get("detail") or self.problem.get("title") or "no decision"
        super().__init__(f"Stint answered {status}: {detail}")


class StintOutage(Exception):
    """Stint could not be reached, did not answer in time, or something else answered in its place."""


@dataclasses.dataclass(frozen=True)
class Key:
    """One key of a check. policy is the best match if it is None, cost is 1 to 1,000, more where amounts are counted."""

    key: str
    policy: Optional[str] = None
    cost: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Rule:
    """What one rule has left."""

    rule: str
    limit: int
    window: float  # seconds
    remaining: int
    retry_after: Optional[float]  # seconds; None where waiting never helps
    reset_after: float  # seconds


@dataclasses.dataclass(frozen=True)
class Hold:
    """What an allowed check holds until it is settled, released or expires. expires_at is in RFC 3339."""

    handle: str
    expires_at: str


@dataclasses.dataclass(frozen=True)
class SettledHold:
    """What became of a hold. over is how much of the cost is beyond a limit."""

    state: str  # settled, released, or held after it was extended
    held: int
    cost: int
    over: int
    expires_at: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Decision:
    """The answer to a check. raw has every member that the server sent."""

    decision: str  # allowed, limited, blocked or unavailable
    allowed: bool
    id: Optional[str] = None
    key: Optional[str] = None
    policy: Optional[str] = None
    mode: Optional[str] = None
    degraded: bool = False
    degraded_reason: Optional[str] = None
    retry_after: Optional[float] = None  # seconds: 0 where allowed, None where waiting never helps
    rule: Optional[str] = None
    rules: Optional[List[Rule]] = None
    decisions: Optional[List["Decision"]] = None  # about each key, where several were asked
    hold: Optional[Hold] = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)  # Retry-After, RateLimit and RateLimit-Policy
    outage: Optional[BaseException] = None  # why this client decided in Stint's place
    raw: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ReportedPolicy:
    policy: str
    mode: str
    result: str  # charged, full, replayed or lost
    refuses: bool
    derived_key: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Reported:
    """The answer to a report: the policies that count it. note says why none does."""

    key: str
    outcome: str
    policies: List[ReportedPolicy]
    note: Optional[str] = None
    degraded: bool = False
    raw: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Check:
    """A check: one key or, all charged or none, several. request has the attributes path, method, agent, host and scope,
    for policies with conditions. values are further values of the request, such as {"account": "alice"}. What clients
    choose in request, values and meta is cut to what the server takes."""

    key: Union[str, Sequence[Union[str, Key]]]
    policy: Optional[str] = None
    cost: Optional[int] = None
    peek: bool = False
    detail: Optional[str] = None
    charge: Optional[str] = None
    source: Optional[str] = None
    meta: Optional[Mapping[str, Any]] = None
    request: Optional[Mapping[str, Any]] = None
    values: Optional[Mapping[str, Any]] = None
    idempotency_key: Optional[str] = None
    hold: Optional[str] = None  # for how long the cost is held, such as "10m"

    def sent(self) -> Dict[str, Any]:
        """Returns what is sent. The idempotency key makes it safe to send it again: it is charged once."""
        common = {"policy": self.policy, "cost": self.cost}
        sent: Dict[str, Any]
        if isinstance(self.key, str):
            sent = {"key": self.key, **common}
        else:
            keys = [part if isinstance(part, Key) else Key(part) for part in self.key]
            filled = ({"key": k.key, "policy": k.policy or self.policy, "cost": k.cost if k.cost is not None else self.cost} for k in keys)
            sent = {"keys": [_said(k) for k in filled]}
        sent.update(detail=self.detail, charge=self.charge, peek=self.peek or None, hold=self.hold)
        sent.update(_texts(self.source, self.meta, self.request, self.values))
        if not self.peek:
            sent["idempotency_key"] = self.idempotency_key or uuid.uuid4().hex
        return _said(sent)


@dataclasses.dataclass(frozen=True)
class Report:
    """The outcome of a request of a key, such as login_failed, for policies with an outcome; or, in its place, the status of
    the answer, by which Stint finds the outcomes. at is in RFC 3339."""

    key: str
    outcome: Optional[str] = None
    request: Optional[Mapping[str, Any]] = None
    values: Optional[Mapping[str, Any]] = None
    at: Optional[str] = None
    source: Optional[str] = None
    meta: Optional[Mapping[str, Any]] = None
    id: Optional[str] = None
    status: Optional[int] = None

    def sent(self) -> Dict[str, Any]:
        sent = {"key": self.key, "outcome": self.outcome, "status": self.status, "at": self.at, "id": self.id or uuid.uuid4().hex}
        return _said({**sent, **_texts(self.source, self.meta, self.request, self.values)})


def _texts(
    source: Optional[str], meta: Optional[Mapping[str, Any]], request: Optional[Mapping[str, Any]], values: Optional[Mapping[str, Any]]
) -> Dict[str, Any]:
    return {
        "source": source,
        "meta": None if meta is None else _cut.meta(meta),
        "request": None if request is None else _cut.attributes(request),
        "values": None if values is None else _cut.values(values),
    }


def _said(members: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class Call(Generic[T]):
    """One call: what is sent, how its answer is read, and what an outage is answered with; None raises it."""

    path: str
    read: Callable[[Answer], T]
    body: Optional[Mapping[str, Any]] = None
    method: str = "POST"
    is_admin: bool = False
    outage: Optional[Callable[[StintOutage], T]] = None

    def encoded(self) -> bytes:
        # A lone surrogate, which JSON of a client may contain, is sent escaped: the server says that it is no text.
        return b"" if self.body is None else json.dumps(self.body).encode("ascii")

    def result(self, answer: Answer) -> T:
        """Returns what the answer means; raises a StintError for a mistake and a StintOutage for anything else."""
        try:
            return self.read(answer)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise StintOutage(f"the members of the answer have other types: {error}") from error

    def fail(self, error: StintOutage) -> T:
        if self.outage is None:
            raise error
        return self.outage(error)


class Calls:
    """Makes the calls of a client."""

    def __init__(self, on_outage: str) -> None:
        if on_outage not in ON_OUTAGE:
            raise ValueError('on_outage must be "open", "closed" or "raise"')
        self._on_outage = on_outage

    def check(self, check: Check) -> Call[Decision]:
        return Call("/v1/check", self._read_decision, check.sent(), outage=None if self._on_outage == "raise" else self._decide)

    def batch(self, checks: Sequence[Check]) -> Call[List[Union[Decision, StintError]]]:
        if not 1 <= len(checks) <= MAX_BATCH:
            raise ValueError(f"a batch of {len(checks)} checks; send 1 to {MAX_BATCH}")
        if any(not isinstance(check.key, str) for check in checks):
            raise ValueError("a check of a batch has one key; send a check of several keys alone")

        def read(answer: Answer) -> List[Union[Decision, StintError]]:
            items = _list(answer, "decisions", len(checks))
            return [_decision(item) if "decision" in item else StintError(int(item.get("status", 422)), item) for item in items]

        def decide(error: StintOutage) -> List[Union[Decision, StintError]]:
            return [self._decide(error) for _ in checks]

        body = {"checks": [check.sent() for check in checks]}
        return Call("/v1/check/batch", read, body, outage=None if self._on_outage == "raise" else decide)

    def report(self, report: Report) -> Call[Reported]:
        def read(answer: Answer) -> Reported:
            given = _json(answer)
            if answer.status == 200 and isinstance(given, dict) and isinstance(given.get("policies"), list):
                return _reported(given)
            raise _refused(answer, given)

        return Call("/v1/report", read, report.sent())

    def reports(self, reports: Sequence[Report]) -> Call[List[Union[Reported, StintError]]]:
        if not 1 <= len(reports) <= MAX_BATCH:
            raise ValueError(f"a batch of {len(reports)} reports; send 1 to {MAX_BATCH}")

        def read(answer: Answer) -> List[Union[Reported, StintError]]:
            items = _list(answer, "answers", len(reports))
            return [_reported(item) if "policies" in item else StintError(int(item.get("status", 422)), item) for item in items]

        return Call("/v1/report/batch", read, {"reports": [report.sent() for report in reports]})

    def settle(self, handle: str, cost: Optional[int]) -> Call[SettledHold]:
        return Call(_hold_path(handle), _settled, {} if cost is None else {"cost": cost})

    def release(self, handle: str) -> Call[SettledHold]:
        return Call(_hold_path(handle), _settled, method="DELETE")

    def extend(self, handle: str, hold: str) -> Call[SettledHold]:
        return Call(_hold_path(handle) + "/extend", _settled, {"hold": hold})

    def reset(self, key: str) -> Call[None]:
        def read(answer: Answer) -> None:
            if answer.status != 200 or not isinstance(_json(answer), dict):
                raise _refused(answer, _json(answer))

        return Call("/v1/keys?key=" + urllib.parse.quote(key, safe=""), read, method="DELETE", is_admin=True)

    def _read_decision(self, answer: Answer) -> Decision:
        given = _json(answer)
        if is_decision(given) and _STATUS[given["decision"]] == answer.status:
            headers = {name: answer.headers[name.lower()] for name in _HEADERS if name.lower() in answer.headers}
            return dataclasses.replace(_decision(given), headers=headers)
        raise _refused(answer, given)

    def _decide(self, error: StintOutage) -> Decision:
        reason = "Stint could not be asked"
        if self._on_outage == "open":
            return Decision("allowed", True, degraded=True, degraded_reason=reason, retry_after=0.0, outage=error)
        seconds = float(OUTAGE_RETRY_SECONDS)
        headers = {"Retry-After": str(OUTAGE_RETRY_SECONDS)}
        return Decision("unavailable", False, degraded=True, degraded_reason=reason, retry_after=seconds, headers=headers, outage=error)


def is_decision(given: Any) -> bool:
    """Whatever else answers for Stint lets no request pass, nor does an answer that contradicts itself."""
    return isinstance(given, dict) and isinstance(given.get("id"), (str, type(None))) and given.get("decision") in _STATUS and given.get("allowed") is (given["decision"] == "allowed")


def _refused(answer: Answer, given: Any) -> Exception:
    """Returns the error of an answer without a decision: any Stint would refuse a wrong question in the same way, and
    everything else is an outage."""
    error = StintError(answer.status, given)
    if 400 <= answer.status < 500 and answer.status not in (401, 403, 408, 429):
        return error
    outage = StintOutage(str(error))
    outage.__cause__ = error
    return outage


def _json(answer: Answer) -> Any:
    try:
        return json.loads(answer.body)
    except ValueError:
        return None


def _list(answer: Answer, name: str, length: int) -> List[Dict[str, Any]]:
    given = _json(answer)
    items = given.get(name) if isinstance(given, dict) else None
    if answer.status != 200 or not isinstance(items, list) or len(items) != length:
        raise _refused(answer, given)
    for item in items:
        if not isinstance(item, dict) or ("decision" in item and not is_decision(item)):
            raise _refused(answer, None)
    return items


def _hold_path(handle: str) -> str:
    return "/v1/holds/" + urllib.parse.quote(handle, safe="")


def _settled(answer: Answer) -> SettledHold:
    given = _json(answer)
    if answer.status != 200 or not isinstance(given, dict) or "state" not in given:
        raise _refused(answer, given)
    return SettledHold(str(given["state"]), int(given.get("held", 0)), int(given.get("cost", 0)), int(given.get("over", 0)), given.get("expires_at"))


def _seconds(milliseconds: Any) -> Optional[float]:
    return milliseconds / 1000 if isinstance(milliseconds, (int, float)) else None


def _decision(given: Dict[str, Any]) -> Decision:
    rules, decisions, hold = given.get("rules"), given.get("decisions"), given.get("hold")
    return Decision(
        decision=given["decision"],
        allowed=given["allowed"],
        id=given.get("id"),
        key=given.get("key"),
        policy=given.get("policy"),
        mode=given.get("mode"),
        degraded=bool(given.get("degraded")),
        degraded_reason=given.get("degraded_reason"),
        retry_after=_seconds(given.get("retry_after_ms")),
        rule=given.get("rule"),
        rules=[_rule(rule) for rule in rules] if isinstance(rules, list) else None,
        decisions=[_decision(part) for part in decisions if is_decision(part)] if isinstance(decisions, list) else None,
        hold=Hold(str(hold.get("handle")), str(hold.get("expires_at"))) if isinstance(hold, dict) else None,
        raw=given,
    )


def _rule(given: Dict[str, Any]) -> Rule:
    return Rule(
        rule=str(given.get("rule", "")),
        limit=int(given.get("limit", 0)),
        window=_seconds(given.get("window_ms")) or 0.0,
        remaining=int(given.get("remaining", 0)),
        retry_after=_seconds(given.get("retry_after_ms")),
        reset_after=_seconds(given.get("reset_after_ms")) or 0.0,
    )


def _reported(given: Dict[str, Any]) -> Reported:
    policies = [
        ReportedPolicy(str(p.get("policy")), str(p.get("mode")), str(p.get("result")), bool(p.get("refuses")), p.get("derived_key"))
        for p in given["policies"]
    ]
    key, outcome = str(given.get("key", "")), str(given.get("outcome", ""))
    return Reported(key, outcome, policies, given.get("note"), bool(given.get("degraded")), given)


def valid_token(token: Optional[str]) -> Optional[str]:
    if token is not None and not re.fullmatch(r"[\x21-\x7e]+", token):
        raise ValueError("token must be printable ASCII without spaces; one that was read from a file may end in a line break")
    return token
