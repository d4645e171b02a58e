"""Bytes of a chat completion, streamed or whole -> text, tool calls, usage and why it ended, however they are written.

Servers differ: chunks are cut anywhere, `data:` comes without its space, lines end in CR LF, the last mark is missing,
usage comes in a chunk without choices or in every chunk, tool calls come in fragments without index or id.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from headwater.errors import BackendError
from headwater.messages import ToolCall, Usage

Finish = Literal["", "stop", "length", "tool_calls", "content_filter"]
_FINISHES: Final[Mapping[str, Finish]] = {
    **{"stop": "stop", "length": "length", "tool_calls": "tool_calls", "content_filter": "content_filter"},
    **{"max_tokens": "length", "model_length": "length", "function_call": "tool_calls", "tool_use": "tool_calls"},
    **{"sensitive": "content_filter", "insufficient_system_resource": "length"},
}
_OPEN: Final = re.compile(r"<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSE: Final = re.compile(r"</(?:think|thinking|thought|reasoning)>\s*", re.IGNORECASE)
_TAG_CHARS: Final = len("</reasoning>")


class Lines:
    """Bytes -> whole JSON values of the events, and whether the end was announced."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._open = ""  # data of an event that is not JSON yet: it may go on in the next line
        self.done = False

    def feed(self, chunk: bytes, *, last: bool = False) -> Iterator[Any]:
        """The values that are complete now."""
        text = self._rest + self._decoder.decode(chunk, final=last)
        # A carriage return at the end may be the first half of a line's end.
        held = "\r" if text.endswith("\r") and not last else ""
        *lines, self._rest = text.removesuffix(held).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest += held
        if last:
            lines.append(self._rest)
            self._rest = ""
        for line in lines:
            yield from self._line(line)
        if last and self._open.strip():
            raise BackendError(f"the stream holds something that is not JSON: {self._open[:80]!r}")

    def _line(self, line: str) -> Iterator[Any]:
        if not line.strip():
            self._flush()
            return
        if line.startswith("data:"):
            data = line.removeprefix("data:").strip()
        elif not self._open and line.lstrip().startswith("{"):  # a JSON value a line, as some servers stream
            data = line.strip()
        else:  # a comment, or a field of the event that says nothing here
            return
        if data == "[DONE]":
            self.done = True
            return
        self._open = f"{self._open}\n{data}" if self._open else data
        try:
            value = json.loads(self._open)
        except ValueError:
            return
        self._open = ""
        yield value

    def _flush(self) -> None:
        if self._open.strip():
            raise BackendError(f"the stream holds something that is not JSON: {self._open[:80]!r}")
        self._open = ""


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


class Reply:
    """Collects the parts of one reply. `take` gives the text that is new."""

    def __init__(self, *, reasons: bool = False, cleaned: Callable[[str], str] = str) -> None:
        self._cleaned = cleaned  # takes keys out of what a server says
        self.finish: Finish = ""
        self.usage: Usage | None = None
        self.begun = False  # anything at all was said, reasoning too
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._thoughts = Thoughts(inside=reasons)

    def take(self, value: Any) -> str:
        """The text of one event. Raises BackendError where the event tells of a failure."""
        if not isinstance(value, dict):
            return ""
        if error := value.get("error"):
            message = error.get("message", error) if isinstance(error, dict) else error
            raise BackendError(f"the model's server broke off: {self._cleaned(str(message))}")
        self.usage = _usage(value.get("usage")) or self.usage
        choices = value.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        said = choice.get("delta") or choice.get("message") or {}
        if not isinstance(said, dict):
            said = {}
        self.finish = _finish(choice.get("finish_reason")) or self.finish
        text = _text(said.get("content")) or _text(choice.get("text"))
        fragments = said.get("tool_calls") or []
        for fragment in fragments if isinstance(fragments, list) else [fragments]:
            self._fragment(fragment)
        if isinstance(said.get("function_call"), dict):
            self._fragment({"index": 0, "function": said["function_call"]})
        hidden = said.get("reasoning_content") or said.get("reasoning")
        self.begun = self.begun or bool(text or fragments or hidden)
        return self._thoughts.feed(text)

    def rest(self) -> str:
        """The text that was held back, at the end."""
        return self._thoughts.end()

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, whole; one without a name is none."""
        named = [call for call in self._calls if call.name]
        return tuple(
            ToolCall(id=call.id or f"call_{number}", name=call.name, arguments=call.arguments or "{}")
            for number, call in enumerate(named, start=1)
        )

    def _fragment(self, given: Any) -> None:
        if not isinstance(given, dict):
            return
        function = given.get("function") if isinstance(given.get("function"), dict) else given
        assert isinstance(function, dict)
        id, name = str(given.get("id") or ""), str(function.get("name") or "")
        call = self._call(given.get("index"), id, name)
        call.id = call.id or id
        if name != call.name:
            call.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = json.dumps(arguments, ensure_ascii=False)
        call.arguments += arguments or ""

    def _call(self, index: Any, id: str, name: str) -> _Call:
        """The call that a fragment belongs to: by index, by id, else the last one until a new name begins."""
        if isinstance(index, int) and not isinstance(index, bool):
            known = self._by_index.get(index)
            # Some servers number every call 0: another id is another call.
            if known is not None and not (id and known.id and id != known.id):
                return known
        elif id and (same := next((call for call in self._calls if call.id == id), None)):
            return same
        elif self._calls and not id and not (name and _whole(self._calls[-1])):
            return self._calls[-1]
        call = _Call()
        self._calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        return call


class Thoughts:
    """Text as it comes -> the text without what the model thinks aloud: `<think>...</think>` at the start of a line."""

    def __init__(self, *, inside: bool = False) -> None:
        # Some servers swallow the opening tag. `inside` from the start: nothing is shown before the closing one, and
        # all of it at the end where none came.
        self._inside, self._guessed = inside, inside
        self._held = ""
        self._line_start = True
        self._blank = True  # nothing was shown yet: white space before the first word is none of the answer's

    def feed(self, text: str) -> str:
        """What can be shown now."""
        self._held += text
        shown = ""
        while self._held:
            if self._inside:
                close = _CLOSE.search(self._held)
                if close is None:
                    if not self._guessed:
                        self._held = self._held[-_TAG_CHARS:]
                    break
                self._held = self._held[close.end() :]
                self._inside = self._guessed = False
                self._line_start = True
                continue
            opened = _OPEN.search(self._held)
            if opened is not None and self._starts_line(opened.start()):
                shown += self._give(opened.start())
                self._held = self._held[opened.end() - opened.start() :]
                self._inside = True
                continue
            ready = len(self._held) if opened is None else opened.end()
            if opened is None:
                tag = self._held.rfind("<")
                if tag >= 0 and len(self._held) - tag < _TAG_CHARS and ">" not in self._held[tag:]:
                    ready = tag  # perhaps half of a tag
            if not ready:
                break
            shown += self._give(ready)
            if opened is None:
                break
        return shown

    def end(self) -> str:
        """What was held back and is text after all."""
        held, self._held = self._held, ""
        if self._guessed:
            opened = _OPEN.match(held.lstrip())
            return "" if opened else held
        return "" if self._inside else held

    def _give(self, length: int) -> str:
        given, self._held = self._held[:length], self._held[length:]
        if given:
            self._line_start = not given.rpartition("\n")[2].strip() and (self._line_start or "\n" in given)
        if self._blank:
            given = given.lstrip()
            self._blank = not given
        return given

    def _starts_line(self, place: int) -> bool:
        before = self._held[:place]
        return not before.rpartition("\n")[2].strip() and (self._line_start or "\n" in before)


def _whole(call: _Call) -> bool:
    try:
        json.loads(call.arguments or "x")
    except ValueError:
        return False
    return True


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):  # parts, as some gateways give them
        parts = [part for part in content if isinstance(part, dict) and part.get("type") in ("text", "output_text")]
        return "".join(str(part.get("text") or "") for part in parts)
    return ""


def _finish(reason: Any) -> Finish:
    return _FINISHES.get(str(reason).lower(), "stop") if reason else ""


def _usage(given: Any) -> Usage | None:
    if not isinstance(given, dict):
        return None
    asked, said = given.get("prompt_tokens"), given.get("completion_tokens")
    if not isinstance(asked, int) and not isinstance(said, int):
        return None
    return Usage(
        input_tokens=asked if isinstance(asked, int) else 0, output_tokens=said if isinstance(said, int) else 0
    )
