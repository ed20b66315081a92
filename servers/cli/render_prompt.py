"""`graphrt render-prompt`: the exact prompt for a chat request."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

from calculators.images.media.tags import with_tags
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.llm.parsers.registry import UnknownParser
from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer, calls_of
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.requests.completions_request import parse_chat_request
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from graph_runtime import GraphError
from servers.cli.messages import CommandFailed, print_warning

#: Endings of files of a language model, its tokenizer and its chat template.
_SUFFIXES_OF_MODELS = (".bin", ".gguf", ".jinja", ".json", ".safetensors", ".xml")
#: The name of the model changes nothing here.
_ANY = "any"
#: Whether the model reads images is not known.
_LIMITS = RequestLimits(max_images=sys.maxsize)
_GRAPH_FILE = "graph.pbtxt"
_MODELS_PATH = re.compile(r"""^[^#\n]*?\bmodels_path\s*:\s*(["'])(.*?)\1""", re.MULTILINE)
_TOOL_PARSER = re.compile(r"""^[^#\n]*?\btool_parser\s*:\s*(["'])(.*?)\1""", re.MULTILINE)


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    given = Path(args.model_dir)
    if not given.is_dir() and not _is_gguf(given):
        raise CommandFailed(f"{given}: there is no such directory, and no such GGUF file")
    request = _read_request()
    # With a record, members that a server leaves out are left out here too.
    record = RequestRecord("render-prompt")
    set_current_record(record)
    try:
        chat = parse_chat_request({"model": _ANY, **request}, _LIMITS, ModelDefaults())
        model, tool_parser = named_model(given)
        renderer = ChatRenderer(template_of(model))
        prompt = renderer.render(
            with_tags(chat.messages),
            tools=chat.tools.items or None,
            template_kwargs=chat.template.all_values,
            continues=chat.template.continues,
            calls=calls_of(tool_parser or renderer.tool_parser, renderer.analysis.made),
        ).encode()
    except (GraphError, UnknownParser) as error:
        raise CommandFailed(str(error)) from error
    except UnicodeEncodeError as error:
        raise CommandFailed("the request has half of a surrogate pair in a text") from error
    finally:
        set_current_record(None)
    for warning in record.warnings:
        print_warning(warning)
    # As bytes: a text stream would add carriage returns on some systems, and has its own encoding.
    sys.stdout.buffer.write(prompt)
    sys.stdout.buffer.flush()
    return 0


def _is_gguf(path: Path) -> bool:
    return path.suffix == ".gguf" and path.is_file()


def template_of(model: Path) -> ChatTemplate:
    """Return the chat template of a model's directory or GGUF file.

    Raises:
        CommandFailed: there is no model, or the file is damaged.
        ChatTemplateError: the template cannot be used.
    """
    files = sorted(model.glob("*.gguf")) if model.is_dir() else [model]
    if len(files) == 1 and _is_gguf(files[0]) and not (model / "openvino_model.xml").exists():
        # Imported here: other models need none of it.
        from servers.cli.gguf_models import template_of_gguf

        return template_of_gguf(files[0])
    _check_is_model(model)
    return ChatTemplate.load(model)


def _check_is_model(directory: Path) -> None:
    if directory.is_dir() and not any(
        file.suffix in _SUFFIXES_OF_MODELS for file in directory.iterdir()
    ):
        raise CommandFailed(f"{directory}: there is no model and no chat template in it")


def _read_request() -> dict[str, Any]:
    try:
        request = json.loads(sys.stdin.buffer.read().decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise CommandFailed(f"standard input is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise CommandFailed(
            f"standard input is not JSON: line {error.lineno}, column {error.colno}: {error.msg}",
            hint="it has to be the body of a chat request, `< request.json`",
        ) from error
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"standard input is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise CommandFailed("standard input is not a JSON object: the body of a chat request")
    return request


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")


def named_model(given: Path) -> tuple[Path, str]:
    """Return the model's directory or file, and the tool parser chosen for it, "" for none.

    A graph in the given directory may name another one, and the parser.
    """
    try:
        graph = (given / _GRAPH_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return given, ""
    directory, parser = _MODELS_PATH.search(graph), _TOOL_PARSER.search(graph)
    return given / directory[2] if directory else given, parser[2] if parser else ""
