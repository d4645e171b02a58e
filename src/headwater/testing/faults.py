"""Fail on purpose. After SQLite's method: fail the 1st call, then the 2nd, ... until nothing fails."""

from collections.abc import Callable, Iterator
from typing import Any


class Crash(BaseException):
    """Not an Exception: no `except Exception` may survive it, as none survives a power cut."""


class Countdown:
    """Shared by wrapped objects: raises Crash instead of (or right after) the nth call."""

    def __init__(self, calls: int, *, after: bool) -> None:
        self.left, self.after, self.fired = calls, after, False

    def wrap(self, target: Any) -> Any:
        """The same object, every call of which counts."""
        return _Counted(target, self)

    def call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """One counted call."""
        if self.fired:
            raise Crash
        self.left -= 1
        if self.left == 0 and not self.after:
            self.fired = True
            raise Crash
        result = method(*args, **kwargs)
        if self.left == 0:
            self.fired = True
            raise Crash
        return result


class _Counted:
    def __init__(self, target: Any, countdown: Countdown) -> None:
        self._target, self._countdown = target, countdown

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value
        return lambda *args, **kwargs: self._countdown.call(value, *args, **kwargs)


def every_crash_point(limit: int = 1000) -> Iterator[Countdown]:
    """Countdowns until one run completes unharmed: before each call, then after each call."""
    for after in (False, True):
        for calls in range(1, limit):
            countdown = Countdown(calls, after=after)
            yield countdown
            if not countdown.fired:
                break
        else:
            raise AssertionError(f"no run completed within {limit} calls")
