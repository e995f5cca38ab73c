"""HTTP/1.1 as far as a client of Stint needs it: one reader of answers for the blocking and the asynchronous client, so
that both keep the deadline of a whole call and not one of each read."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import Dict, Optional

MAX_HEAD = 64 << 10  # bytes
MAX_BODY = 8 << 20  # bytes; the answer to a batch of 1,000 checks with rules has some 1 MiB


class BrokenAnswer(OSError):
    """The other side does not speak HTTP, or its answer is too long or ends early."""


class ClosedWithoutAnswer(BrokenAnswer):
    """The connection was closed before any byte of an answer."""


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    headers: Dict[str, str]  # by names in lower case
    body: bytes


@dataclasses.dataclass(frozen=True)
class Target:
    """Where a listener is: http://host:port/path."""

    scheme: str
    host: str
    port: int
    path: str
    authority: str  # the header Host

    @staticmethod
    def of(url: str) -> "Target":
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url must be http://HOST:PORT or https://HOST:PORT")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url must not contain a user name; pass the token as token")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return Target(parts.scheme, parts.hostname, port, parts.path.rstrip("/"), parts.netloc)

    def request(self, method: str, path: str, body: bytes, token: Optional[str]) -> bytes:
        """Returns the bytes of a request."""
        lines = [f"{method} {self.path}{path} HTTP/1.1", f"Host: {self.authority}", "Accept: application/json"]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + body


class AnswerReader:
    """Reads one answer from the parts that arrive. Once it is complete, reusable says whether the connection may
    carry another request."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._status = 0
        self._headers: Dict[str, str] = {}
        self._body = bytearray()
        self._left: Optional[int] = None  # bytes of the body or chunk; None until the connection is closed
        self._chunked = False
        self._has_head = False
        self.has_begun = False
        self.is_complete = False
        self.reusable = False

    def feed(self, part: bytes) -> bool:
        """Takes a part, b"" for the end of the connection, and reports whether the answer is complete."""
        self.has_begun = self.has_begun or bool(part)
        if not part:
            self._end()
            return self.is_complete
        self._buffer += part
        while not self._has_head:
            if not self._read_head():
                return False
        self._read_body()
        return self.is_complete

    def answer(self) -> Answer:
        return Answer(self._status, self._headers, bytes(self._body))

    def _end(self) -> None:
        if not self.has_begun:
            raise ClosedWithoutAnswer("the connection was closed without an answer")
        if not self._has_head or self._chunked or self._left is not None:
            raise BrokenAnswer("the answer ends early")
        self.is_complete = True

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD or not b"HTTP/".startswith(self._buffer[:5]):
                raise BrokenAnswer("the answer is not HTTP")
            return False
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or len(words[1]) != 3 or not words[1].isdigit():
            raise BrokenAnswer("the answer is not HTTP")
        self._status = int(words[1])
        if 100 <= self._status < 200 and self._status != 101:
            return bool(self._buffer) and self._read_head()
        headers: Dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise BrokenAnswer("the answer has a header without a name")
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self._headers = headers
        self._has_head = True
        keeps = "close" not in headers.get("connection", "").lower() and words[0] == "HTTP/1.1"
        length = headers.get("content-length")
        if self._status in (101, 204, 304):
            self._left, self.is_complete = 0, True
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunked = True
        elif "transfer-encoding" in headers:
            raise BrokenAnswer("the answer has a transfer coding that nobody asked for")
        elif length is not None:
            if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY:
                raise BrokenAnswer("the answer is too long")
            self._left = int(length)
        self.reusable = keeps and self._status != 101 and (self._chunked or self._left is not None)
        return True

    def _read_body(self) -> None:
        if self.is_complete:
            pass
        elif self._chunked:
            self._read_chunks()
        elif self._left is None:
            self._take(len(self._buffer))
        else:
            self._left -= self._take(min(self._left, len(self._buffer)))
            self.is_complete = self._left == 0
        if self.is_complete and self._buffer:
            self.reusable = False  # more than the answer

    def _take(self, size: int) -> int:
        if len(self._body) + size > MAX_BODY:
            raise BrokenAnswer("the answer is too long")
        self._body += self._buffer[:size]
        del self._buffer[:size]
        return size

    def _read_chunks(self) -> None:
        while True:
            if self._left is None:
                end = self._buffer.find(b"\r\n")
                if end < 0:
                    if len(self._buffer) > MAX_HEAD:
                        raise BrokenAnswer("the answer has a bad chunk")
                    return
                digits = bytes(self._buffer[:end]).split(b";")[0].strip()
                try:
                    self._left = int(digits, 16)
                except ValueError:
                    raise BrokenAnswer("the answer has a bad chunk") from None
                if self._left < 0 or self._left > MAX_BODY:
                    raise BrokenAnswer("the answer is too long")
                if self._left > 0:
                    del self._buffer[: end + 2]
            if self._left == 0:  # the trailer is read with the line of the last chunk before it
                end = self._buffer.find(b"\r\n\r\n")
                if end >= 0:
                    del self._buffer[: end + 4]
                    self.is_complete = True
                elif len(self._buffer) > MAX_HEAD:
                    raise BrokenAnswer("the answer has a bad chunk")
                return
            if len(self._buffer) < self._left + 2:
                return
            self._take(self._left)
            if self._buffer[:2] != b"\r\n":
                raise BrokenAnswer("the answer has a bad chunk")
            del self._buffer[:2]
            self._left = None
