"""What the middleware have in common: how a request is asked about, and how a refusal is answered."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import ipaddress
import json
import re
import urllib.parse
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._protocol import Check, Decision, Key, Report, StintError

Keys = Union[str, Sequence[Union[str, Key]]]
Headers = List[Tuple[str, str]]

OUTCOME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclasses.dataclass(frozen=True)
class Incoming:
    """A request, whatever framework it comes from. raw is the framework's own: the scope of ASGI, the environ of WSGI, or
    Django's HttpRequest."""

    method: str
    path: str  # percent-encoded, with what the application is mounted below, without the query
    host: Optional[str]
    agent: Optional[str]
    address: str  # of the connection, whatever the headers are; "" if the server does not know it
    headers: Mapping[str, str]  # by names in lower case
    raw: Any

    @property
    def attributes(self) -> Dict[str, Optional[str]]:
        """What policies with conditions ask of the request."""
        return {"path": self.path, "method": self.method, "agent": self.agent, "host": self.host}


KeyFunction = Callable[[Incoming], Keys]
OutcomeFunction = Callable[[Incoming, int], Union[None, str, Report, Sequence[Report]]]
ErrorFunction = Callable[[BaseException, Incoming], None]


def quoted_path(path: str, encoding: str = "utf-8") -> str:
    """Returns a decoded path as it is sent: encoded again, so that nothing in it is decoded twice."""
    return urllib.parse.quote(path.encode(encoding, "surrogateescape"), safe="/~!$&'()*+,;=:@")


def plain_address(address: Optional[str]) -> str:
    """Returns an address without its port and zone, as proxies may write it: 192.0.2.1:80, [2001:db8::1]:80."""
    text = (address or "").strip()
    match = re.fullmatch(r"\[([^\]]*)\](?::\d+)?", text) or re.fullmatch(r"(\d+(?:\.\d+){3}):\d+", text)
    if match:
        text = match.group(1)
    text = text.split("%", 1)[0]
    return re.sub(r"(?i)^::ffff:(?=\d+\.)", "", text)


def address_key(*trusted: str) -> Callable[[Incoming], str]:
    """Returns a key function: "ip:" and the address of the connection or, where that is one of the trusted addresses and
    networks, the nearest address of X-Forwarded-For, from the right, that is none of them. Do not trust a network that
    contains clients: they could choose their own address. A server such as uvicorn, which may replace the address of the
    connection by that of a header, must know the same proxies and no others."""
    networks = [ipaddress.ip_network(text) for text in trusted]

    def is_trusted(address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed.version == network.version and parsed in network for network in networks)

    def key(request: Incoming) -> str:
        address = plain_address(request.address)
        forwarded = request.headers.get("x-forwarded-for", "").split(",")
        while forwarded and is_trusted(address):
            following = plain_address(forwarded.pop())
            try:
                ipaddress.ip_address(following)
            except ValueError:
                break
            address = following
        return f"ip:{address}"

    return key


def login_keys(address: str, account: Optional[str]) -> List[str]:
    """Returns the keys of a login, as the preset "login" has them: login:ADDRESS, of IPv6 the /64, and account:NAME. An
    account that is too long for a key is hashed."""
    address = plain_address(address)
    keys = []
    try:
        parsed = ipaddress.ip_address(address)
        keys.append(f"login:{address}" if parsed.version == 4 else f"login:{ipaddress.ip_network((int(parsed), 64), strict=False)}")
    except ValueError:
        pass  # a connection without an address, such as a UNIX socket
    if account:
        key = f"account:{account}"
        if len(key.encode("utf-8", "replace")) > 512 or not key.isprintable():
            key = f"account:{hash_of(account)}"
        keys.append(key)
    return keys


def hash_of(secret: str) -> str:
    """Returns the hash that keys contain in place of a secret: 32 hexadecimal digits, as /v1/forward makes them."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclasses.dataclass(frozen=True)
class Refusal:
    status: int
    headers: Headers
    body: bytes


@dataclasses.dataclass(frozen=True)
class Guard:
    """The options of a middleware. key returns one key or several, each a string or a Key. skip lets a request pass
    without a check; a client that can make it true has no limit. outcome is called with the status of the response and
    returns what is reported: the name of an outcome for all keys of the request, or whole Reports. report_status reports the
    status of each response by report_soon, for policies with outcomes or evidence: Stint finds by it that a page was missing
    or a login failed, and learns what the site has. on_error is called for each request without a decision of the server,
    and for a report of an outcome that failed."""

    key: KeyFunction = dataclasses.field(default_factory=address_key)
    policy: Optional[str] = None
    cost: Union[None, int, Callable[[Incoming], int]] = None
    source: Optional[str] = None
    meta: Optional[Callable[[Incoming], Mapping[str, Any]]] = None
    skip: Optional[Callable[[Incoming], bool]] = None
    outcome: Optional[OutcomeFunction] = None
    report_status: bool = False
    on_error: Optional[ErrorFunction] = None

    def check(self, request: Incoming) -> Check:
        """Returns what is asked about a request."""
        keys: Any = self.key(request)
        if keys is None or not isinstance(keys, (str, list, tuple)):
            keys = ""  # which the server refuses
        if not isinstance(keys, str):
            keys = [part if isinstance(part, (str, Key)) else "" for part in keys]
        cost = self.cost(request) if callable(self.cost) else self.cost
        meta = None if self.meta is None else self.meta(request)
        return Check(keys, policy=self.policy, cost=cost, source=self.source, meta=meta, request=request.attributes)

    def decided(self, request: Incoming, decision: Decision) -> Optional[Refusal]:
        """Returns how a request is refused, None if it is let through."""
        if decision.outage is not None:
            self.failed(decision.outage, request)
        return None if decision.allowed else refusal_of(decision)

    def mistaken(self, request: Incoming, error: StintError) -> Refusal:
        """Returns how a request is refused whose check is wrong: with 400 where its key is."""
        self.failed(error, request)
        if re.fullmatch(r"key|keys|keys\[\d+\](\.key)?", error.field or ""):
            return _refusal(_BAD_KEY, [])
        return _refusal(_UNAVAILABLE, [("Retry-After", "1")])

    def reports(self, request: Incoming, check: Check, status: int) -> List[Report]:
        """Returns what is reported after a response."""
        if self.outcome is None:
            return []
        outcome = self.outcome(request, status)
        if outcome is None:
            return []
        if isinstance(outcome, Report):
            return [outcome]
        if not isinstance(outcome, str):
            return list(outcome)
        return [Report(key, outcome, request=request.attributes, source=self.source) for key in _names(check)]

    def answered(self, soon: Callable[[Report], None], request: Incoming, check: Check, status: int) -> None:
        """Reports the status of a response."""
        if self.report_status:
            for key in _names(check):
                soon(Report(key, request=request.attributes, source=self.source, status=status))

    def failed(self, error: BaseException, request: Incoming) -> None:
        if self.on_error is not None:
            self.on_error(error, request)

    def results(self, request: Incoming, results: Sequence[Any]) -> None:
        """Says which of the reports were wrong."""
        for result in results:
            if isinstance(result, StintError):
                self.failed(result, request)


def _names(check: Check) -> List[str]:
    return [check.key] if isinstance(check.key, str) else [key.key if isinstance(key, Key) else key for key in check.key]


def guard_of(options: Mapping[str, Any]) -> Guard:
    guard = Guard(**options)
    for name in ("key", "outcome"):
        if inspect.iscoroutinefunction(getattr(guard, name)):
            raise TypeError(f"{name} must be a plain function")
    return guard


# The bodies name nothing that the request can choose, nor what operators wrote about a block. They are those of /v1/forward.
_TYPES = "https://iana.org/assignments/http-problem-types#"
_BAD_KEY: Dict[str, Any] = {
    "type": "about:blank", "title": "Bad Request", "status": 400,
    "detail": "What identifies the client in this request cannot be read.", "code": "invalid",
}  # fmt: skip
_UNAVAILABLE: Dict[str, Any] = {
    "type": _TYPES + "temporary-reduced-capacity", "title": "Service Unavailable", "status": 503,
    "detail": "The service cannot decide at the moment. Try again later.", "code": "unavailable",
}  # fmt: skip
_BLOCKED: Dict[str, Any] = {"type": "about:blank", "title": "Forbidden", "status": 403, "detail": "This client is blocked.", "code": "blocked"}
_LIMITED: Dict[str, Any] = {
    "type": _TYPES + "quota-exceeded", "title": "Too Many Requests", "status": 429, "detail": "Too many requests.", "code": "limited",
}  # fmt: skip


def refusal_of(decision: Decision) -> Refusal:
    """Returns how a request is refused by a decision."""
    text = decision.headers.get("Retry-After", "")
    seconds = int(text) if text.isascii() and text.isdigit() else 0
    problem = dict({"limited": _LIMITED, "blocked": _BLOCKED}.get(decision.decision, _UNAVAILABLE))
    if decision.decision == "blocked" and seconds > 0:
        problem["detail"] = "This client is blocked for a time. Try again later."
    if decision.decision == "limited" and seconds > 0:
        problem["detail"] += f" Try again in {seconds} second{'' if seconds == 1 else 's'}."
    if decision.id:
        problem["id"] = decision.id
    if decision.decision == "limited" and decision.rule and re.fullmatch(r"\d+/[0-9a-z]+", decision.rule) and not decision.rule.endswith("ms"):
        problem["violated-policies"] = [decision.rule]
    return _refusal(problem, list(decision.headers.items()))


def _refusal(problem: Mapping[str, Any], headers: Headers) -> Refusal:
    body = json.dumps(problem).encode("ascii")
    more = [
        ("Content-Type", "application/problem+json"), ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"),
    ]  # fmt: skip
    return Refusal(problem["status"], headers + more, body)
