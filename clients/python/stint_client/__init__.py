"""Asks a Stint server whether a key may make one more request, and reports outcomes of requests."""

from ._aio import AsyncStint
from ._client import Stint
from ._guard import Guard, Incoming, address_key, hash_of, login_keys
from ._protocol import Check, Decision, Hold, Key, Report, Reported, ReportedPolicy, Rule, SettledHold, StintError, StintOutage

__all__ = [
    "AsyncStint", "Check", "Decision", "Guard", "Hold", "Incoming", "Key", "Report", "Reported", "ReportedPolicy", "Rule", "SettledHold", "Stint",
    "StintError", "StintOutage", "address_key", "hash_of", "login_keys",
]  # fmt: skip
