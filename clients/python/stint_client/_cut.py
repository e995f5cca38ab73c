"""What clients choose of a request, as the server takes it: nothing in it may make a check or a report invalid."""

from __future__ import annotations

import json
import re
import unicodedata
import urllib.parse
from typing import Any, Dict, Mapping, Optional

_MOST = {"path": 8192, "method": 32, "agent": 2048, "host": 255}  # bytes
_MOST_META = 256  # bytes
_MOST_VALUE = 2048  # bytes
_MOST_ENCODED = 2 * _MOST_VALUE  # bytes in JSON: eight values must fit into a check


def attributes(request: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the attributes of a request, cut to what the server takes. Other members stay as they are."""
    fitting = {name: value for name, value in request.items() if name not in _MOST and value is not None}
    for name, most in _MOST.items():
        value = request.get(name)
        text = cut(_plain_path(value) if name == "path" else value, most)
        if text is not None:
            fitting[name] = text
    return fitting


def meta(values: Mapping[str, Any]) -> Dict[str, str]:
    return {name: cut(_text(value), _MOST_META) or "" for name, value in values.items() if value is not None}


def values(values: Mapping[str, Any]) -> Dict[str, str]:
    return {name: _value(_text(value)) for name, value in values.items() if value is not None}


def cut(text: Any, most: int) -> Optional[str]:
    """Returns a text of at most so many bytes without control characters, None for none."""
    if not isinstance(text, str) or text == "":
        return None
    clean = "".join("\ufffd" if unicodedata.category(c) == "Cc" else c for c in text[:most])
    return _encoded(clean)[:most].decode("utf-8", "ignore") or None


def _encoded(text: str) -> bytes:
    return re.sub("[\ud800-\udfff]", "\ufffd", text).encode("utf-8")


def _plain_path(target: Any) -> Any:
    """Returns a path in its plain spelling where it is long, so that no padding of slashes and dots hides what it leads
    to."""
    if not isinstance(target, str):
        return None
    path = target.split("?", 1)[0]
    raw = _encoded(path)
    if len(raw) <= _MOST["path"]:
        return path
    raw = re.sub(rb"^[a-zA-Z][a-zA-Z0-9+.-]*://[^/]*", b"", raw)
    parts: list[bytes] = []
    for part in urllib.parse.unquote_to_bytes(raw).split(b"/"):
        if part == b"..":
            del parts[-1:]
        elif part not in (b"", b"."):
            parts.append(part)
    return "/" + "/".join(urllib.parse.quote(part, safe="~") for part in parts)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _value(text: str) -> str:
    text = _encoded(text[:_MOST_VALUE])[:_MOST_VALUE].decode("utf-8", "ignore")
    size, end = 0, 0
    for char in text:
        size += len(json.dumps(char, ensure_ascii=False).encode("utf-8")) - 2
        if size > _MOST_ENCODED:
            return text[:end]
        end += 1
    return text
