"""Options of `graphrt serve` stand in one declaration; the rest follows from it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, fields

import pytest

from calculators.images.media.media_rules import MediaRules
from calculators.kit.requests.request_queue import REQUEST_LIMIT
from calculators.kit.settings import declaration, value_types
from calculators.kit.settings.declaration import (
    Group,
    Option,
    SettingError,
    option,
    options_of,
    values_of,
)
from calculators.llm.parsers.registry import (
    reasoning_parser,
    reasoning_parser_names,
    tool_parser,
    tool_parser_names,
)
from calculators.llm.task_options import LlmSettings
from graph_runtime import FamilySettings
from servers.cli.arguments import make_parser
from servers.cli.command_line import spread
from servers.cli.reference import index_reference, reference, tune_reference
from servers.cli.serve_arguments import add_options
from servers.cli.serve_options import ServeOptions, serve_options
from servers.config import server_config
from servers.fronts.http import HttpSettings
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.options.model_options import index_options, tune_options
from servers.options.server_options import (
    WITHOUT_EFFECT,
    GrpcOptions,
    HttpOptions,
    declared_options,
)
from servers.serving.loaded_graph import GraphSettings
from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT

PAGE = ROOT / "docs" / "reference" / "server_options.md"


def parsed(*words: str) -> ServeOptions:
    return serve_options(make_parser().parse_args(spread(["serve", "config.json", *words])))


def test_the_reference_page_is_what_the_declarations_make() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        f"`python -m servers.cli.reference > {PAGE.relative_to(ROOT)}` writes it again"
    )


@pytest.mark.parametrize(
    ("command", "text", "options"),
    [("index", index_reference, index_options), ("tune", tune_reference, tune_options)],
)
def test_the_reference_pages_of_other_commands_are_what_the_declarations_make(
    command: str, text: Callable[[], str], options: Callable[[], tuple[Option, ...]]
) -> None:
    page = PAGE.with_name(f"{command}_options.md")
    assert page.read_text(encoding="utf-8") == text(), (
        f"`python -m servers.cli.reference {command} > {page.relative_to(ROOT)}` writes it again"
    )
    help_text = graphrt(command, "--help").stdout
    assert [each.flag for each in options() if f"--{each.flag} " not in help_text] == []


def test_no_spelling_is_of_two_options() -> None:
    flags = [flag for each in declared_options() for flag in each.flags]
    flags += [f"--{name}" for name in WITHOUT_EFFECT]
    assert len(flags) == len(set(flags))
    assert len(flags) > 60


def test_each_option_is_in_the_help() -> None:
    text = graphrt("serve", "--help").stdout
    assert [each.flag for each in declared_options() if f"--{each.flag} " not in text] == []


KEYED = [each for each in declared_options() if each.config_key]


@pytest.mark.parametrize("each", KEYED, ids=lambda each: each.flag)
def test_a_key_that_an_option_names_is_one_of_config_json(each: declaration.Option) -> None:
    findings: list[str] = []
    *path, key = each.config_key.split(".")
    entry: dict[str, object] = {key: None}
    for name in reversed(path):
        entry = {name: entry}
    check = server_config.CONFIG if path else server_config.MODEL_CONFIG
    check.check(entry, "", lambda where, message, *_: findings.append(f"{where}: {message}"))
    about = [finding for finding in findings if finding.startswith(f"{each.config_key}: ")]
    assert len(about) == 1
    assert "unknown key" not in about[0]


def test_sizes_that_the_help_names_are_those_of_the_fronts() -> None:
    http = HttpSettings()
    (found,) = [each for each in declared_options() if each.flag == "max_body_size"]
    sizes = (http.max_body_bytes >> 20, http.max_tensor_body_bytes >> 20)
    assert "default {}M, and {}M with raw tensors".format(*sizes) in found.text


def test_what_is_given_reaches_the_settings_of_a_family() -> None:
    options = parsed("--verbose_response", "--request_queue_limit", "3", "--cache_dir", "c")
    assert options.families.of(LlmSettings) == LlmSettings(request_limit=3, verbose_response=True)
    assert options.families.of(MediaRules) == MediaRules()
    graphs = GraphSettings(**values_of(options.graphs), families=options.families)
    assert (graphs.request_limit, graphs.cache_dir) == (3, "c")


def test_what_is_not_given_has_the_default_of_the_declaration() -> None:
    options = parsed()
    assert values_of(options.http) == values_of(HttpOptions())
    assert GraphSettings().request_limit == options.families.of(LlmSettings).request_limit
    assert LlmSettings().request_limit == REQUEST_LIMIT
    assert {field.name for field in fields(HttpOptions)} < {f.name for f in fields(HttpSettings)}
    assert {field.name for field in fields(GrpcOptions)} < {f.name for f in fields(GrpcSettings)}


def test_settings_of_a_family_that_nobody_gave_are_its_defaults() -> None:
    assert FamilySettings().of(LlmSettings) == LlmSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechSettings:
    """A family's settings, as an author would write them."""

    voice_limit: int = option(
        4,
        "voices at a time; default {default}, 100% of them loaded",
        group=Group("speech"),
        metavar="N",
        reads=value_types.count,
        flag="speech_voices",
        aliases=("voices",),
    )
    voice: str = option(
        "", "a voice", group=Group("speech"), metavar="NAME", resolve=lambda name: _known(name)
    )


def _known(name: str) -> str:
    if name not in ("", "ada"):
        raise ValueError("no such voice")
    return name


def test_one_declaration_makes_flags_help_and_settings() -> None:
    command = argparse.ArgumentParser()
    add_options(command, options_of(SpeechSettings))
    assert "voices at a time; default 4, 100% of them loaded" in command.format_help()
    for words in (["--speech_voices", "2"], ["--voices", "2"]):
        values = vars(command.parse_args([*words, "--voice", "ada"]))
        settings = declaration.read(SpeechSettings, values)
        assert settings == SpeechSettings(voice_limit=2, voice="ada")
    assert declaration.read(SpeechSettings, vars(command.parse_args([]))) == SpeechSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class SongSettings:
    """Another family's, with a flag of the first."""

    voice: str = option("", "a voice", group=Group("songs"), metavar="NAME")


def test_two_declarations_of_one_flag_are_refused() -> None:
    with pytest.raises(TypeError, match=r"SongSettings\.voice: --voice is declared elsewhere"):
        options_of(SpeechSettings, SongSettings)


def test_a_value_that_cannot_be_used_names_its_flag() -> None:
    with pytest.raises(SettingError, match=r"--voice bob: no such voice"):
        declaration.read(SpeechSettings, {"voice": "bob"})


def test_every_named_parser_is_there_and_in_the_help() -> None:
    text = graphrt("parse-output", "--help").stdout
    for name in tool_parser_names():
        assert tool_parser(name) is not None
        assert name in text
    for name in reasoning_parser_names():
        assert reasoning_parser(name) is not None
        assert name in text
