"""`graphrt detect`: how a model writes calls and reasoning, by its chat template."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calculators.kit.model_json import read_model_json
from calculators.llm.parsers.families import FAMILIES, AnswerFamily
from calculators.llm.parsers.pattern import described
from calculators.llm.parsers.registry import MADE
from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from graph_runtime import GraphError
from servers.cli.messages import CommandFailed
from servers.cli.render_prompt import named_model, template_of

_TOKENIZER = "tokenizer_config.json"


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    given = Path(args.model)
    if not given.exists():
        raise CommandFailed(f"{given}: there is no such file or directory")
    try:
        template, model = _template(given)
        chats = ChatRenderer(
            template, vocabulary=_vocabulary(model), architecture=_architecture(model)
        )
    except GraphError as error:
        raise CommandFailed(f"{given}: {error}") from error
    facts = _facts(chats)
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n" if args.json else _text(facts)
    sys.stdout.write(text)
    return 0


def _template(given: Path) -> tuple[ChatTemplate, Path]:
    """Return a template, and the directory or file of its model."""
    if given.suffix == ".jinja" and given.is_file():
        try:
            source = given.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandFailed(f"{given} cannot be read as UTF-8") from error
        return ChatTemplate.of_source(source, file=given.name), given
    if given.name == _TOKENIZER and given.is_file():
        given = given.parent
    if not given.is_dir() and given.suffix != ".gguf":
        raise CommandFailed(
            f"{given}: expected a .jinja file, a {_TOKENIZER}, the directory of a model, or a GGUF"
            " file"
        )
    model, _ = named_model(given)
    template = template_of(model)
    if template.files.is_default:
        raise CommandFailed(f"{given}: the model has no chat template")
    return template, model


def _vocabulary(model: Path) -> frozenset[str]:
    """Return the tokens of a model's ``tokenizer.json``."""
    found = read_model_json(model / "tokenizer.json")
    added, own = found.get("added_tokens"), found.get("model")
    texts = {each.get("content") for each in added or () if isinstance(each, dict)}
    vocabulary = own.get("vocab") if isinstance(own, dict) else None
    return frozenset(each for each in (*texts, *(vocabulary or ())) if isinstance(each, str))


def _architecture(model: Path) -> str:
    named = read_model_json(model / "config.json").get("architectures")
    return str(named[0]) if isinstance(named, list) and named else ""


def _facts(chats: ChatRenderer) -> dict[str, Any]:
    found = chats.analysis
    calls = _form(chats.tool_parser, found.made)
    return {
        "tool_parser": chats.tool_parser or None,
        "tool_parser_by": found.calls_found_by or None,
        "calls": None if calls is None or calls.calls is None else _stated(asdict(calls.calls)),
        "reasoning_parser": found.reasoning_parser,
        "reasoning_parser_by": found.reasoning_found_by or None,
        "reasoning": found.marks,
        "prompt_opens": dict(found.opens),
        "made": None if found.made is None else described(found.made),
        "switches": [asdict(switch) for switch in found.switches.found],
        "reasoning_efforts": dict(found.switches.efforts),
        "template": {
            "knows_tools": chats.knows_tools,
            "arguments": "object" if found.requires_object_arguments else "text",
            "many_calls": found.takes_many_calls,
            "null_content": found.hides_calls_beside_text,
            "reasoning": found.reasoning_form
            or found.misnamed_reasoning_field
            or ("reasoning_content" if found.marks else None),
        },
        "models": [] if calls is None else list(calls.models),
    }


def _form(name: str, made: AnswerFamily | None) -> AnswerFamily | None:
    return made if name == MADE else FAMILIES.get(name)


def _stated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a declaration that say something."""
    return {name: value for name, value in values.items() if value and value != ("", "")}


def _text(facts: Mapping[str, Any]) -> str:
    template, opens = facts["template"], facts["prompt_opens"]
    form = facts["calls"] or {}
    calls = facts["tool_parser"] or "none is known"
    if facts["tool_parser_by"]:
        calls += f", by {facts['tool_parser_by']}"
    if not template["knows_tools"]:
        calls += " (the template shows no tools: they are written into a message)"
    marks = "none"
    if facts["reasoning"] is not None:
        begin, end = facts["reasoning"]
        marks = f"{begin} ... {end} ({facts['reasoning_parser']}), by"
        marks += f" {facts['reasoning_parser_by']}"
    prompt = ", ".join(
        f"{state or 'left to the model'} {_WHEN[name]}" for name, state in opens.items()
    )
    switches = [_switch(each) for each in facts["switches"]]
    efforts = [f"{word} as {own}" for word, own in facts["reasoning_efforts"].items()]
    history = [
        f"arguments as {template['arguments']}",
        "" if template["many_calls"] else "one call a turn",
        "null where there is no text" if template["null_content"] else "",
        f"reasoning as {template['reasoning']}" if template["reasoning"] else "",
    ]
    rows = [
        ("calls", calls),
        ("form", repr(form["call"]) if form.get("call") else ""),
        ("argument", repr(form["argument"]) if form.get("argument") else ""),
        ("around all", " and ".join(map(repr, form.get("section", ())))),
        ("reasoning", marks),
        ("prompt", prompt),
        ("switches", ", ".join(switches) or "none"),
        ("efforts", ", ".join(efforts)),
        ("history", ", ".join(filter(None, history))),
        ("made", facts["made"]),
        ("models", ", ".join(facts["models"])),
    ]
    return "".join(f"{name:<11} {text}\n" for name, text in rows if text)


_WHEN = {"default": "by default", "on": "with reasoning on", "off": "with it off"}


def _switch(switch: Mapping[str, Any]) -> str:
    words = (
        f"{json.dumps(value)} (default)" if value == switch["default"] else json.dumps(value)
        for value in switch["values"]
    )
    return f"{switch['name']} {' or '.join(words)}"
