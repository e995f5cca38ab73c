from __future__ import annotations

import dataclasses
import os
import threading
import time
from typing import Callable, List, Optional, Sequence, Union

from . import _cut
from ._protocol import Report, Reported, StintError, StintOutage

_MOST = 4096  # reports that wait
_DELAY = 0.2  # seconds in which reports are collected
_BATCH = 64  # whatever clients choose of that many reports fits into a call


class ReportQueue:
    """Reports that nobody waits for. A thread sends them, which ends when none waits; a program that ends waits for it."""

    def __init__(self, send: Callable[[Sequence[Report]], List[Union[Reported, StintError]]]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._waiting: List[Report] = []
        self._thread: Optional[threading.Thread] = None
        self._process = os.getpid()
        self.dropped = 0

    def put(self, report: Report) -> None:
        if self._process != os.getpid():  # the process that this one was forked from sends what waited in it
            self.__init__(self._send)  # type: ignore[misc]
        if report.request is not None:
            report = dataclasses.replace(report, request=_cut.attributes(report.request))
        with self._lock:
            if len(self._waiting) >= _MOST:
                self.dropped += 1
                return
            self._waiting.append(report)
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="stint-reports")
            try:
                thread.start()
            except RuntimeError:  # the program ends, or has too many threads
                self._waiting.clear()
                self.dropped += 1
            else:
                self._thread = thread

    def flush(self) -> None:
        """Waits until all that was put has been sent."""
        with self._lock:
            thread = self._thread if self._process == os.getpid() else None
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            if len(self._waiting) < _BATCH:
                time.sleep(_DELAY)
            with self._lock:
                batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            lost = len(batch)
            try:
                lost = sum(isinstance(result, StintError) for result in self._send(batch))
            except (StintError, StintOutage):
                pass
            with self._lock:
                self.dropped += lost
                if not self._waiting:
                    self._thread = None
                    return
