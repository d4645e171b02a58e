"""The commands that go on with what was said: a conversation in the terminal, and an answer looked at again."""

import io
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.commands.flags import options
from headwater.errors import HeadwaterError, NotFound, UsageError

if TYPE_CHECKING:
    from headwater.build import KnowledgeBase
    from headwater.turns import KeptAnswer
    from headwater.types import Answer, Citation

HELP = """\
/new            begin another conversation
/list           the latest conversations
/open ID        go on with one of them
/sources        the passages behind the last answer
/model [NAME]   show the models, or choose one; `/model default` for the one of the settings
/docs on|off    answer from the documents, or without them
/export FILE    write this conversation to a file, as JSON
/help           these lines
/quit           leave"""
QUOTE_CHARS = 160


@click.command()
@click.option("--conversation", default="", metavar="ID", help="Go on with this conversation.")
@click.option("--llm", default="", metavar="NAME", help="The model that writes; a section [llm.NAME] of the settings.")
@click.option("--no-documents", is_flag=True, help="Answer without the documents; needs a language model.")
@options("where", "collection", "preset", "home")
def chat(
    *,
    conversation: str,
    llm: str,
    no_documents: bool,
    where: str,
    collection: str | None,
    preset: str | None,
    home: Path | None,
) -> None:
    """Talk with your documents. Follow-ups are understood; every answer has its sources.

    \b
    Example:
      headwater chat
    """
    from headwater.build import open_home
    from headwater.filters import parse

    if sys.stdin is None:
        raise UsageError("standard input is closed, and what is said comes from there; run it in a terminal, or pipe")
    if isinstance(sys.stdin, io.TextIOWrapper):  # a line in another encoding is asked as well as it can be read
        sys.stdin.reconfigure(errors="replace")
    with suppress(ImportError):  # line editing and history, where Python has them
        __import__("readline")
    with open_home(home, preset=preset, create=False) as kb:
        talk = _Talk(kb, where=where, collection=collection)
        talk.conversation, talk.llm, talk.documents = conversation, llm, not no_documents
        parse(where)  # refused at once, not after the first question
        if llm:
            kb.writers.named(llm)
        if conversation:
            kb.conversations.get(conversation)
        if sys.stdin.isatty():
            click.echo("Ask. /help shows what else there is, /quit leaves.")
        talk.run()


@click.command()
@click.argument("answer_id", default="")
@click.option("--stale", is_flag=True, help="All answers that are kept and whose sources have changed since.")
@click.option("--again", is_flag=True, help="Ask the same question now, and say what is different in the answer.")
@options("home", "json")
def replay(*, answer_id: str, stale: bool, again: bool, home: Path | None, as_json: bool) -> None:
    """Show an answer again as it was, and say whether its sources have changed since.

    \b
    Example:
      headwater replay 3f1c9a2b7d504e86
      headwater replay --stale --again
    """
    from headwater.build import open_home

    if bool(answer_id) == stale:
        raise UsageError("say which answer: its id, as `headwater chat` shows it, or --stale for all that are stale")
    with open_home(home, create=False) as kb:
        found = kb.stale() if stale else [kb.replay(answer_id)]
        asked = [kb.ask(one.asked, where=one.where, options=dict(one.options)) if again else None for one in found]
    if as_json:
        from headwater.shapes import to_json

        shown = [_plain(kept, now) for kept, now in zip(found, asked, strict=True)]
        click.echo(to_json(shown if stale else shown[0]))
        return
    for number, (kept, now) in enumerate(zip(found, asked, strict=True)):
        click.echo("\n" if number else "", nl=False)
        _print_kept(kept, now)
    if not found:
        click.echo("no answer that is kept is stale")


def _plain(kept: "KeptAnswer", now: "Answer | None") -> dict[str, Any]:
    from headwater.turns import plain_answer

    shown = plain_answer(kept)
    if now is None:
        return shown
    from headwater.shapes import answer_shape

    told = {name: value for name, value in answer_shape(now).items() if name in ("citations", "corrected", "degraded")}
    return {**shown, "again": {"text": now.text, "same": now.text == kept.text, **told}}


def _print_kept(kept: "KeptAnswer", now: "Answer | None") -> None:
    from headwater.typos import told

    click.echo(f"{kept.question}\n")
    click.echo(f"{kept.text}\n")
    _print_citations(kept.citations, stale=kept.stale)
    by = kept.model or "the documents' own sentences"
    click.echo(f"\n{kept.id}: answered {kept.created} by {by}, from generation {kept.generation} of the index")
    if kept.stale:
        click.echo(f"stale: {len(kept.stale)} of its sources changed since: {', '.join(kept.stale)}")
    notes = (*told(kept.corrected), *kept.degraded)
    for note in notes:
        click.echo(f"  note: {note}", err=True)
    if now is None:
        return
    if now.text == kept.text:
        click.echo("asked again: the answer is the same")
    else:
        click.echo("asked again:\n\n" + "\n".join(_differences(kept.text, now.text)) + "\n")
        _print_citations(now.citations)
    for note in (*told(now.corrected), *now.degraded):
        if note not in notes:
            click.echo(f"  note, now: {note}", err=True)


def _print_citations(citations: "Sequence[Citation]", *, stale: Container[str] = ()) -> None:
    for one in citations:
        changed = "  (changed since)" if one.uri in stale else ""
        click.echo(f'  [{one.marker}] {one.uri}:{one.span.start}-{one.span.end}{changed}  "{_clip(one.quote)}"')


def _differences(before: str, after: str) -> list[str]:
    """The sentences of both, those that are gone behind a minus and those that are new behind a plus."""
    if before == after:
        return []
    from difflib import ndiff

    from headwater.tokens import sentences

    old, new = ([text[slice(*span)].strip() for span in sentences(text)] for text in (before, after))
    return [line for line in ndiff(old, new) if not line.startswith("?")]


class _Talk:
    """What is said at the prompt, until it ends."""

    def __init__(self, kb: "KnowledgeBase", *, where: str, collection: str | None) -> None:
        self.kb, self.where, self.collection = kb, where, collection
        self.conversation, self.llm, self.documents = "", "", True
        self.last: Answer | None = None
        self.commands: Mapping[str, Callable[[str], None]] = {
            "/new": self._new,
            "/list": self._list,
            "/open": self._open,
            "/sources": self._sources,
            "/model": self._model,
            "/docs": self._documents,
            "/export": self._export,
            "/help": lambda _: click.echo(HELP),
        }

    def run(self) -> None:
        """Read a line, answer it, until there is none."""
        while True:
            try:
                line = input("> " if sys.stdin.isatty() else "").strip()
            except (EOFError, KeyboardInterrupt):
                click.echo("")
                return
            word, _, rest = line.partition(" ")
            if word in ("/quit", "/exit", "/q"):
                return
            if not line:
                continue
            try:
                self._said(line) if not line.startswith("/") else self._command(word, rest.strip())
            except HeadwaterError as error:  # the conversation goes on
                click.echo(f"error: {error}", err=True)

    def _command(self, word: str, rest: str) -> None:
        known = self.commands.get(word)
        if known is None:
            click.echo(f"there is no {word}; /help shows what there is", err=True)
        else:
            known(rest)

    def _said(self, line: str) -> None:
        from headwater.types import Answer, Restart, Sentence
        from headwater.typos import told

        streamed = False
        events = self.kb.chat_stream(
            line,
            conversation=self.conversation,
            use_knowledge_base=self.documents,
            where=self.where,
            collection=self.collection,
            options={"llm": self.llm} if self.llm else {},
        )
        for event in events:
            if isinstance(event, Sentence):
                click.echo((" " if streamed else "") + event.text, nl=False)
                streamed = True
            elif isinstance(event, Restart) and streamed:
                click.echo(f"\n  (withdrawn: {event.reason})")
                streamed = False
            elif isinstance(event, Answer):
                click.echo("" if streamed else event.text)
                self.last, self.conversation = event, event.conversation_id
                self._sources("")
                for note in (*told(event.corrected), *event.degraded):
                    click.echo(f"  note: {note}", err=True)

    def _new(self, _: str) -> None:
        self.conversation, self.last = "", None
        click.echo("a new conversation")

    def _list(self, _: str) -> None:
        for one in self.kb.conversations.latest(limit=20):
            click.echo(f"{one.id}  {one.updated[:16]}  {one.count:>3} turns  {one.title}")

    def _open(self, id: str) -> None:
        found = self.kb.conversations.get(id)
        self.conversation, self.last = found.id, None
        for turn in found.turns[-4:]:
            click.echo(f"{'> ' if turn.role == 'user' else ''}{turn.content}")
            with suppress(NotFound):  # kept no longer
                if turn.answer_id and (stale := self.kb.replay(turn.answer_id).stale):
                    click.echo(f"  (stale: its sources changed since: {', '.join(stale)})")

    def _sources(self, _: str) -> None:
        if self.last is None:
            click.echo("nothing was answered yet")
            return
        for citation in self.last.citations:
            place = f"{citation.uri}:{citation.span.start}-{citation.span.end}"
            click.echo(f'  [{citation.marker}] {place}  "{_clip(citation.quote)}"')
        if self.last.refused:
            for hit in self.last.hits[:3]:
                click.echo(f'  - {hit.uri}:{hit.chunk.span.start}-{hit.chunk.span.end}  "{_clip(hit.chunk.text)}"')
        if self.last.id:
            click.echo(f"  kept: headwater replay {self.last.id}")

    def _model(self, name: str) -> None:
        if not name:
            click.echo(f"in use: {self.llm or 'default'}; there are: default, {', '.join(self.kb.writers.names())}")
            return
        if name != "default":
            self.kb.writers.named(name)
        self.llm = "" if name == "default" else name
        click.echo(f"answers are written by: {name}")

    def _documents(self, state: str) -> None:
        if state in ("on", "off"):
            self.documents = state == "on"
        click.echo(f"the documents are {'used' if self.documents else 'not used'}")

    def _export(self, file: str) -> None:
        from headwater.shapes import to_json

        if not file or not self.conversation:
            click.echo("say /export FILE once something was answered", err=True)
            return
        try:
            Path(file).write_text(to_json(self.kb.conversations.export(self.conversation)), encoding="utf-8")
        except OSError as error:
            click.echo(f"error: {file} cannot be written: {error}", err=True)
            return
        click.echo(f"written to {file}")


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUOTE_CHARS else line[:QUOTE_CHARS].rstrip() + " …"


COMMANDS: tuple[Any, ...] = (chat, replay)
