"""The commands about language models: find one or take an endpoint, try it, and write it into the settings."""

import os
from pathlib import Path
from typing import Any

import click

from headwater.commands.flags import options
from headwater.errors import BackendError, UsageError

QUESTION = "Say OK."
# Long enough to load a model of some gigabytes.
TRY_SECONDS = 90.0


@click.group()
def llm() -> None:
    """Language models: set one up, and try it."""


@llm.command()
@click.option("--base-url", default="", metavar="URL", help="The endpoint; it mostly ends in /v1.")
@click.option("--model", default="", metavar="NAME", help="The model's name there.")
@click.option("--key-variable", default="", metavar="NAME", help="The environment variable that holds the key.")
@click.option("--name", default="", metavar="NAME", help="Set it up as [llm.NAME], to be chosen by requests.")
@click.option("--no-test", is_flag=True, help="Write the settings without trying the model.")
@options("home")
def setup(*, base_url: str, model: str, key_variable: str, name: str, no_test: bool, home: Path | None) -> None:
    """Find a local Ollama, or take an endpoint, try it, and write it into headwater.toml.

    \b
    Example:
      headwater llm setup --base-url http://127.0.0.1:8080/v1 --model qwen3:8b
    """
    from headwater.config import default_home
    from headwater.llm import install, models_at, ollama_url

    url = base_url or ollama_url()
    if url and not base_url:
        click.echo(f"found Ollama at {url}")
    if not url:
        url = click.prompt("No Ollama runs here. Endpoint of a server that speaks the OpenAI protocol")
    key = os.environ.get(key_variable, "") if key_variable else ""
    if key_variable and not key:
        raise UsageError(f"the environment has no {key_variable!r}; set it to the key, and run this again")
    there = [] if model else models_at(url, key=key)
    if not model:
        model = there[0] if len(there) == 1 else click.prompt(f"Model (there are: {', '.join(there) or 'unknown'})")
    settings: dict[str, Any] = {"use": "openai", "model": model, "base_url": url}
    if key_variable:
        settings["api_key"] = f"env:{key_variable}"
    if not no_test:
        _tried({**settings, **({"api_key": key} if key else {})})
    file = install(home or default_home(), settings, name=name)
    click.echo(f"written to {file}, section [{'llm.' + name if name else 'generate'}]")


@llm.command()
@click.option("--llm", "name", default="", metavar="NAME", help="A model of the settings; else the one in use.")
@options("home", "json")
def test(*, name: str, home: Path | None, as_json: bool) -> None:
    """Ask the model of the settings something short, and say how it did.

    \b
    Example:
      headwater llm test
    """
    from headwater.build import open_home
    from headwater.llm import trial
    from headwater.protocols import LanguageModel

    with open_home(home, create=False) as kb:
        writer = kb.writers.named(name) if name else kb.writers.default
        if not isinstance(writer, LanguageModel):
            raise UsageError("no language model is set up; `headwater llm setup` does it")
        found = trial(writer, QUESTION, deadline_seconds=TRY_SECONDS)
    if as_json:
        from headwater.shapes import to_json

        click.echo(to_json(found))
    else:
        _print(found)


def _tried(settings: dict[str, Any]) -> None:
    from headwater.llm import trial
    from headwater.registry import load

    arguments = {key: value for key, value in settings.items() if key != "use"}
    model: Any = load("generators", str(settings["use"]))(**arguments)
    try:
        _print(trial(model, QUESTION, deadline_seconds=TRY_SECONDS))
    except BackendError as error:
        raise BackendError(f"{error}; nothing was written (--no-test writes it all the same)") from error
    finally:
        model.close()


def _print(found: dict[str, Any]) -> None:
    click.echo(f"{found['model']} said {found['text']!r}")
    click.echo(
        f"first piece after {found['first_ms']:.0f} ms, done after {found['total_ms']:.0f} ms, "
        f"{found['input_tokens']}+{found['output_tokens']} tokens, room for {found['context_tokens']} tokens, "
        f"tools: {'yes' if found['tools'] else 'no'}"
    )
