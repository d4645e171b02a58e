"""The command line: parse arguments, call the knowledge base, print. No logic lives here."""

import codecs
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater import __version__
from headwater.commands import (
    chat,
    completion,
    config,
    key,
    llm,
    manage,
    mcp,
    measure,
    models,
    pack,
    reindex,
    serve,
    watch,
    why,
    worker,
)
from headwater.commands.flags import options, stages
from headwater.errors import HeadwaterError, UsageError
from headwater.places import default_home
from headwater.storage.warm import begin

if TYPE_CHECKING:
    from headwater.build import KnowledgeBase
    from headwater.stages.trace import Inside
    from headwater.types import Answer, Results

SNIPPET_CHARS = 160


class _ReaderGone(Exception):
    """Who reads what is printed has read enough."""


class _Commands(click.Group):
    """The commands. click itself ends with 1 where the reader of a pipe goes away, which is no failure."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(context)
        except BrokenPipeError as error:
            raise _ReaderGone from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="headwater")
@click.option(
    "--install-completion",
    type=click.Choice([*completion.SHELLS, completion.OF_THE_ENVIRONMENT]),
    is_flag=False,
    flag_value=completion.OF_THE_ENVIRONMENT,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, shell: completion.install_completion(context, shell) if shell else None,
    help="Teach the shell in use, or this one, to complete commands and options.",
)
def cli() -> None:
    """Ask your documents. Every answer cites the exact passage it came from, or says it has none.

    \b
    Example:
      headwater add ./handbook
      headwater ask "How long is parental leave?"
    """


@cli.command()
@click.argument("query")
@click.option("--offset", type=click.IntRange(0), default=0, help="Skip this many hits.")
@click.option("--explain", is_flag=True, help="Show every stage's score and the reasons.")
@click.option("--trace", is_flag=True, help="Show what was looked up, and what each leg and stage gave.")
@stages
@options("mode", "top_n", "where", "folder", "collection", "preset", "home", "json")
def search(
    *,
    query: str,
    offset: int,
    explain: bool,
    trace: bool,
    stages: dict[str, Any],
    mode: Any,
    top_n: int | None,
    where: str,
    folder: str | None,
    collection: str | None,
    preset: str | None,
    home: Path | None,
    as_json: bool,
) -> None:
    """Show the passages that fit a query best.

    \b
    Example:
      headwater search "parental leave" --where 'tag = "hr"' --top-n 5
    """
    begin(home or default_home())
    from headwater.build import open_home

    page = {"mode": mode, "top_n": top_n, "offset": offset}
    chosen = {**stages, **{name: value for name, value in page.items() if value is not None}}
    within: dict[str, Any] = {"where": where, "folder": folder, "collection": collection}
    with open_home(home, preset=preset, create=False) as kb:
        seen = kb.inspect(query, options=chosen, **within) if trace else None
        results = seen.results if seen else kb.search(query, offset=offset, options=chosen, **within)
    if as_json:
        from headwater.shapes import inside_shape, results_shape, to_json

        click.echo(to_json({**results_shape(results), **({"trace": inside_shape(seen)} if seen else {})}))
    else:
        _print_results(results, explain=explain)
        if seen:
            _print_inside(seen)


@cli.command()
@click.argument("question")
@click.option("--llm", metavar="NAME", help="The model that writes: a section [llm.NAME], or extractive for none.")
@click.option("--template", metavar="T", help="The prompt: answer, setting, reading, continuation, or your own.")
@click.option("--reflect", is_flag=True, help="Judge the answer, and try again while it is not good enough.")
@stages
@options("mode", "top_n", "where", "folder", "collection", "preset", "home", "json")
def ask(
    *,
    question: str,
    llm: str | None,
    template: str | None,
    reflect: bool,
    stages: dict[str, Any],
    mode: Any,
    top_n: int | None,
    where: str,
    folder: str | None,
    collection: str | None,
    preset: str | None,
    home: Path | None,
    as_json: bool,
) -> None:
    """Answer a question from the documents, with numbered citations, or say that they do not answer it.

    \b
    Example:
      headwater ask "How long is parental leave?"
    """
    begin(home or default_home())
    from headwater.build import open_home

    with open_home(home, preset=preset, create=False) as kb:
        answers = {"llm": llm, "template": template, "reflect": reflect or None}
        chosen = {**stages, **{name: value for name, value in answers.items() if value is not None}}
        within = kb.query(question, where=where, folder=folder, collection=collection).where
        answer = _ask(kb, question, as_json, mode=mode, top_n=top_n, where=within, options=chosen)
    if as_json:
        from headwater.shapes import answer_shape, to_json

        click.echo(to_json(answer_shape(answer)))
    else:
        _print_sources(answer)


@cli.command()
@options("home")
def demo(home: Path | None) -> None:
    """Index a small Chinese-and-English sample and ask it a few questions.

    \b
    Example:
      headwater demo
    """
    from headwater.build import open_home
    from headwater.sample import copy_to, questions

    where = home or Path("headwater-demo")
    folder = copy_to(where / "documents")
    kb_home = where / "kb"
    click.echo(f"$ headwater add {folder} --home {kb_home}")
    with open_home(kb_home) as kb:
        manage.print_report(kb.add(folder))
        for question in (asked["text"] for asked in questions() if asked.get("demo")):
            click.echo(f'\n$ headwater ask "{question}" --home {kb_home}')
            _print_sources(_ask(kb, question, False))
    click.echo(f'\nNow ask it yourself:  headwater ask "…" --home {kb_home}')
    click.echo(f"See it in a browser:  headwater serve --home {kb_home}")
    click.echo("Or your own documents: headwater add FOLDER, then headwater ask QUESTION")


for command in (
    manage.add,
    manage.list_documents,
    manage.show,
    manage.remove,
    manage.status,
    manage.check,
    reindex.reindex,
    watch.watch,
    watch.refresh,
    pack.pack,
    pack.unpack,
    pack.copy,
    pack.forget,
    serve.serve,
    key.key,
    worker.worker,
    mcp.mcp,
    measure.evaluate,
    config.config,
    why.why,
    manage.plugins,
    models.models,
    *chat.COMMANDS,
    llm.llm,
):
    cli.add_command(command)


def main() -> None:
    """Run, and turn errors into a message on standard error and an exit code."""
    _print_anywhere()
    try:
        cli.main(prog_name="headwater", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("\nstopped; what was done stays", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except HeadwaterError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except _ReaderGone:
        # Or Python says at its end that it could not print.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:  # the edge: a person gets a sentence; HEADWATER_DEBUG=1 gives the trace
        if os.environ.get("HEADWATER_DEBUG"):
            raise
        click.echo(f"error: unexpected {type(error).__name__}: {error}; HEADWATER_DEBUG=1 shows where", err=True)
        sys.exit(1)


# ---------------------------------------------------------------------------------------------- print


def _print_anywhere() -> None:
    """Have what the output has no character for written as JSON does: a list ends nowhere, and JSON stays JSON."""

    def escaped(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)  # nothing else is told to a writer
        return json.dumps(error.object[error.start : error.end])[1:-1], error.end

    codecs.register_error("headwater.escaped", escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="headwater.escaped")


def _print_results(results: "Results", *, explain: bool) -> None:
    if results.fallback_reason:
        click.echo(f"(searched by {results.mode_used}: {results.fallback_reason})", err=True)
    from headwater.typos import told

    for note in told(results.corrected):
        click.echo(f"note: {note}", err=True)
    for hit in results:
        place = f"{_short(hit.uri)}:{hit.chunk.span.start}-{hit.chunk.span.end}"
        section = f"  {hit.chunk.section}" if hit.chunk.section else ""
        click.echo(f"{hit.rank}. {hit.title}{section}\n   {place}  score {hit.score:.4f}")
        for line in hit.highlights or (" ".join(hit.chunk.text.split())[:SNIPPET_CHARS],):
            click.echo(f"   {' '.join(line.split())}")
        if explain:
            click.echo("   " + ", ".join(f"{stage} {score:.4f}" for stage, score in hit.scores.items()))
            for reason in hit.reasons:
                click.echo(f"   - {reason}")
    for note in results.degraded:
        click.echo(f"note: {note}", err=True)
    if results.listed:
        click.echo(
            f"every passage with {results.listed!r}: {results.total} in {len(results.document_counts)} documents"
        )
    shown = f"{len(results)} of {results.total} passages in {results.timings_ms.get('total', 0):.0f} ms"
    click.echo(shown if results.total else "nothing was found")
    if explain:
        click.echo("time: " + ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in results.timings_ms.items()))


def _print_inside(seen: "Inside") -> None:
    click.echo(f"keywords: {', '.join(seen.keywords)}; a vector of {len(seen.query_vector)} numbers")
    for lane, terms in seen.terms.items():
        click.echo(f"{lane}: {' '.join(terms) or '-'}")
    click.echo("found: " + ", ".join(f"{stage} {count}" for stage, count in seen.found.items()))


def _ask(kb: "KnowledgeBase", question: str, quiet: bool, **options: Any) -> "Answer":
    """The answer; its sentences are printed as they come unless `quiet`."""
    from headwater.types import Answer, Restart, Sentence

    streamed = False
    for event in kb.stream(question, **options):
        if isinstance(event, Sentence) and not quiet:
            click.echo((" " if streamed else "") + event.text, nl=False)
            streamed = True
        elif isinstance(event, Restart) and streamed:
            click.echo(f"\n  (withdrawn: {event.reason})")
            streamed = False
        elif isinstance(event, Answer):
            if not quiet:
                click.echo("" if streamed else event.text)
            return event
    raise AssertionError("a stream ends with its answer")


def _print_sources(answer: "Answer") -> None:
    from headwater.typos import told

    click.echo("")
    for citation in answer.citations:
        place = f"{_short(citation.uri)}:{citation.span.start}-{citation.span.end}"
        click.echo(f'  [{citation.marker}] {place}  "{_clip(citation.quote)}"')
    if answer.refused and answer.hits:
        click.echo("  nearest passages:")
        for hit in answer.hits[:3]:
            click.echo(f'  - {_short(hit.uri)}:{hit.chunk.span.start}-{hit.chunk.span.end}  "{_clip(hit.chunk.text)}"')
    if answer.id:
        click.echo(f"  kept: headwater replay {answer.id}")
    for note in (*told(answer.corrected), *answer.degraded):
        click.echo(f"  note: {note}", err=True)


def _clip(text: str, chars: int = 72) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else line[:chars].rstrip() + " …"


def _short(uri: str) -> str:
    """A path under the current folder is shown relative to it."""
    path = Path(uri)
    return path.relative_to(Path.cwd()).as_posix() if path.is_absolute() and path.is_relative_to(Path.cwd()) else uri


if __name__ == "__main__":
    main()
