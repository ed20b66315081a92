"""The commands and their arguments. Imports nothing that takes time: ``--help`` needs only this."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from servers.cli import serve_arguments
from servers.cli.argument_types import is_truth_value

_STREAM = re.compile(r"(?:[A-Z_][A-Z0-9_]*:(?:\d+:)?)?[a-z_][a-z0-9_]*\Z")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
_GRAPH_ENDINGS = (".pbtxt", ".textproto", ".binarypb", ".pb", ".json", ".jsonl")


def _is_module_or_file(text: str) -> bool:
    return text.endswith(".py") or (
        _MODULE.match(text) is not None and not text.endswith(_GRAPH_ENDINGS)
    )


#: Options that take several values, and what a further value looks like: the first word that does
#: not is no value, so that the graph may stand behind them.
_SEVERAL: dict[str, Callable[[str], bool]] = {
    "--observe": lambda text: _STREAM.match(text) is not None,
    "--side-packet": lambda text: "=" in text,
    "--calculators": _is_module_or_file,
}


#: Options without a value, in all commands.
_SWITCHES = frozenset({"--expand", "--fold", "--json", "--observe-bounds", "--stream", "--verbose"})
#: Lines of a usage that is shown with an error; those of `serve` would hide it.
_LONGEST_USAGE = 8


class Parser(argparse.ArgumentParser):
    """argparse with a did-you-mean for commands and options."""

    #: By name; of the parser above the commands.
    commands: Mapping[str, Parser] = MappingProxyType({})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Words that a command leaves over are reported by it, with its own usage."""
        self._complete()
        if self.commands and args and args[0].startswith("-") and args[0] != "--":
            name = args[0].partition("=")[0]
            if name not in self._option_string_actions:
                self.error(f"unrecognized arguments: {args[0]}")
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        hint = self._hint(message)
        usage = self.format_usage()
        if usage.count("\n") > _LONGEST_USAGE:
            usage = f"usage: {self.prog} [OPTION ...] [{self.subject}]\n"
        sys.stderr.write(usage)
        lines = [f"error: {message}"]
        if hint:
            lines.append(f"hint: {hint}")
        lines.append(f"hint: `{self.prog} --help` tells more" if not hint else "")
        self.exit(2, "\n".join(line for line in lines if line) + "\n")

    #: What the command is about, for a short usage.
    subject = ""
    #: Adds arguments that take time to look up, before the first use; then None.
    add_further: Callable[[], None] | None = None

    def _complete(self) -> None:
        add, self.add_further = self.add_further, None
        if add is not None:
            add()

    def _hint(self, message: str) -> str:
        """What was perhaps meant by an unknown word: only what would be taken here."""
        import difflib

        unknown = re.search(
            r"argument COMMAND: invalid choice: '([^']+)'|unrecognized arguments: (\S+)", message
        )
        if unknown is None:
            return ""
        word = (unknown[1] or unknown[2]).partition("=")[0]
        owners = [name for name, each in self.commands.items() if word in each._options()]
        if owners:
            taken = " and ".join(f"`graphrt {name}`" for name in owners)
            return f"`{word}` is an option of {taken}: write it behind the command"
        near = difflib.get_close_matches(word, [*self._options(), *self.commands], n=1)
        return f"did you mean `{near[0]}`?" if near else ""

    def _options(self) -> list[str]:
        self._complete()
        return list(self._option_string_actions)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("graphrt")
        except PackageNotFoundError:
            number = "(not installed)"
        print(f"graphrt {number}")
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line. ``args.module`` is the module of the command."""
    parser = Parser(
        prog="graphrt",
        description="Check, draw, run and serve MediaPipe graphs.",
        epilog="Standard output carries data, standard error everything else. "
        "Exit codes: 0 well, 1 failed, 2 wrong usage.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    _add_validate(commands)
    _add_describe(commands)
    _add_calculators(commands)
    _add_run(commands)
    _add_render_prompt(commands)
    _add_parse_output(commands)
    _add_serve(commands)
    _add_doctor(commands)
    parser.commands = commands.choices
    return parser


def _add(
    commands: argparse._SubParsersAction[Parser], name: str, summary: str, details: str
) -> Parser:
    command = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{details}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    # Where people look for it, too.
    command.add_argument("--version", action=_Version, nargs=0, help=argparse.SUPPRESS)
    command.set_defaults(module=f"servers.cli.{name.replace('-', '_')}")
    return command


def _add_sources(command: Parser, *, subgraphs: bool = True) -> None:
    """The arguments that say where node types come from, and the common ones."""
    command.add_argument(
        "--calculators",
        metavar="MODULE_OR_FILE",
        action="append",
        default=[],
        help="a Python module or .py file that registers calculators (more may follow)",
    )
    if subgraphs:
        command.add_argument(
            "--subgraph",
            metavar="FILE",
            action="append",
            default=[],
            help="a graph to use as node type, by its `type` or else the file's name; once per"
            " file. Those in the directory of the graph are found without",
        )
    command.add_argument(
        "--verbose", action="store_true", help="tracebacks of errors, and log messages"
    )


def _add_validate(commands: argparse._SubParsersAction[Parser]) -> None:
    command = _add(
        commands,
        "validate",
        "check graphs and configs, and report every error",
        "Each error names file, line, node, and what would be right.\n"
        "Exit code 1 when any file has one.",
    )
    command.add_argument(
        "files", metavar="FILE", nargs="+", help=".pbtxt, .binarypb or a server's config.json"
    )
    command.add_argument("--format", choices=["text", "json"], default="text")
    _add_sources(command)


def _add_describe(commands: argparse._SubParsersAction[Parser]) -> None:
    command = _add(
        commands,
        "describe",
        "print or draw a graph",
        "Nodes, streams with their types, side packets, executors, back edges.",
    )
    command.add_argument("graph", metavar="GRAPH", help=".pbtxt or .binarypb")
    command.add_argument(
        "--format", choices=["text", "mermaid", "dot", "svg", "json"], default="text"
    )
    folding = command.add_mutually_exclusive_group()
    folding.add_argument(
        "--expand", action="store_true", help="replace subgraphs by their nodes, each in its frame"
    )
    folding.add_argument(
        "--fold",
        dest="expand",
        action="store_false",
        help="subgraphs as single nodes, as written (the default)",
    )
    _add_sources(command)


def _add_calculators(commands: argparse._SubParsersAction[Parser]) -> None:
    command = _add(
        commands,
        "calculators",
        "list the registered calculators, or show one",
        "With NAME: what it does, its ports and options, and a node to paste into a graph.",
    )
    command.add_argument("name", metavar="NAME", nargs="?")
    command.add_argument("--format", choices=["text", "json"], default="text")
    _add_sources(command, subgraphs=False)


_FEED_FORMAT = """\
The feed has one JSON object per line:
  {"stream": NAME, "ts": TIME, "value": VALUE}    add a packet
  {"close": NAME}                                 close a graph input
  {"set_bound": {"stream": NAME, "ts": TIME}}     promise that nothing comes before TIME
  {"wait_until_idle": true}                       run until nothing more can happen
  {"close_all_packet_sources": true}  {"wait_until_done": true}  {"cancel": true}
  {"restart": {NAME: VALUE}}                      end the run, start one with these side packets
  {"checkpoint": {NAME: COUNT}}                   fail unless COUNT packets were seen on a stream
Any of them may carry "error_contains": TEXT: it must fail with this text. Blank lines and lines
that start with # are skipped. After the feed everything is closed and finished.

TIME is an integer or PRESTREAM, MIN, MAX, POSTSTREAM. VALUE: a JSON integer is an int, 1.0 is a
float; {"type": T, "value": V} for other types: int64, float, bytes (base64), vector<int>,
ndarray<float32>, Timestamp, any message type. What cannot be JSON is printed in that form or as
{"type": T, "repr": TEXT}; floats that JSON lacks are the strings "NaN", "Infinity", "-Infinity".
"""


def _add_run(commands: argparse._SubParsersAction[Parser]) -> None:
    command = _add(
        commands,
        "run",
        "run a graph: feed packets in, print what comes out",
        'Prints one JSON object per observed packet, {"stream", "ts", "value"}, and at the end\n'
        'per output side packet, {"side_packet", "value"}. All calls are made in one thread, in\n'
        "a repeatable order, unless the graph itself declares its default executor.",
    )
    command.epilog = _FEED_FORMAT
    command.add_argument("graph", metavar="GRAPH", help=".pbtxt or .binarypb")
    command.add_argument(
        "--feed", metavar="FILE", help="what to send and do, as JSON lines; - is standard input"
    )
    command.add_argument(
        "--observe",
        metavar="STREAM",
        action="append",
        default=[],
        help="a stream to print (more may follow); without it the graph's output streams, or if it"
        " has none every stream that no node consumes",
    )
    command.add_argument(
        "--observe-bounds",
        action="store_true",
        help="print also how far observed streams are settled, as packets with the value null",
    )
    command.add_argument(
        "--side-packet",
        metavar="NAME=JSON",
        action="append",
        default=[],
        help="an input side packet (more may follow)",
    )
    command.add_argument(
        "--trace", metavar="FILE", help="write a trace that https://ui.perfetto.dev opens"
    )
    _add_sources(command)


def _add_serve(commands: argparse._SubParsersAction[Parser]) -> None:
    command = _add(
        commands,
        "serve",
        "serve graphs over HTTP",
        "Listens at once, loads all graphs, and says on standard error what it serves and where.\n"
        "SIGTERM or Ctrl-C ends it when requests in flight are answered; a second one at once.\n"
        "SIGHUP reads the configuration again.",
    )
    command.subject = "CONFIG"
    command.add_further = serve_arguments.add_arguments(command)
    _add_sources(command)


def _add_render_prompt(commands: argparse._SubParsersAction[Parser]) -> None:
    command = _add(
        commands,
        "render-prompt",
        "print the prompt that a chat request becomes",
        "Reads the body of a request to /chat/completions from standard input: messages, tools,\n"
        "tool_choice, chat_template_kwargs. Prints exactly what the model would see, with no line\n"
        "end of its own.",
    )
    command.add_argument(
        "model_dir",
        metavar="MODEL_DIR",
        help="the directory with the model's chat template, or with a graph.pbtxt that names it",
    )


def _add_parse_output(commands: argparse._SubParsersAction[Parser]) -> None:
    command = _add(
        commands,
        "parse-output",
        "print what a model's text means: content, reasoning, tool calls",
        "Reads the text from standard input, as the tokenizer gives it, and prints one JSON\n"
        'object: {"content", "reasoning_content", "tool_calls": [{"name", "arguments"}]}.',
    )
    command.add_argument(
        "--tool-parser",
        metavar="NAME",
        default="none",
        help="hermes3, llama3, phi4, mistral, devstral, qwen3coder, gptoss, lfm2, gemma4, onyx,"
        " minicpm5, one of an installed package, or none (the default)",
    )
    command.add_argument(
        "--reasoning-parser",
        metavar="NAME",
        default="none",
        help="qwen3, gptoss, lfm2, gemma4, onyx, minicpm5, one of an installed package, or none"
        " (the default)",
    )
    command.add_argument(
        "--tools",
        metavar="FILE",
        help="the tools of the request: a JSON array as in a request, or an object with the schema"
        " of the parameters by name. An empty one is a request without tools, where calls are"
        " text; without FILE there are tools that nothing is known of",
    )
    command.add_argument(
        "--prompt",
        metavar="FILE",
        help="what the model was given; it may end inside the reasoning",
    )
    command.add_argument(
        "--stream",
        action="store_true",
        help="standard input is JSON lines, each a string, a chunk of the text; prints for each"
        " the delta it makes as JSON, or null, and one line more for the end",
    )


def _add_doctor(commands: argparse._SubParsersAction[Parser]) -> None:
    command = _add(
        commands,
        "doctor",
        "print what a report of a bug needs, and what is wrong with this machine",
        "Versions, processor, memory and limits, OpenVINO's devices, names of variables; with\n"
        "CONFIG what `graphrt validate` finds in it. No secrets, no requests. Exit code 1 when\n"
        "something is wrong.",
    )
    command.add_argument(
        "config", metavar="CONFIG", nargs="?", help="a server's config.json, or a graph"
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    _add_sources(command, subgraphs=False)


def _is_further_value(command: str, option: str, word: str) -> bool:
    # Where a bare word is a calculator, a directory or a config.
    if command in ("calculators", "doctor", "serve"):
        return word.endswith(".py")
    return _SEVERAL[option](word)


def _with_plain_switches(argv: Sequence[str]) -> list[str]:
    """``--verbose true`` and ``--verbose=true`` become ``--verbose``; with false it is left out."""
    plain: list[str] = []
    words = iter(enumerate(argv))
    for place, word in words:
        if word == "--":
            return [*plain, *argv[place:]]
        name, equals, value = word.partition("=")
        if name not in _SWITCHES:
            plain.append(word)
            continue
        if not equals and place + 1 < len(argv) and is_truth_value(argv[place + 1]):
            _, value = next(words)
        if not is_truth_value(value):
            plain.append(word)
        elif value.lower() == "true":
            plain.append(name)
    return plain


def spread(argv: Sequence[str]) -> list[str]:
    """``--observe a b`` becomes ``--observe a --observe b``: each value gets its option.

    So an option takes the values that look like its own, and leaves the graph behind them alone.
    """
    argv = _with_plain_switches(argv)
    if argv and argv[0] == "serve":
        argv = serve_arguments.normalize_flags(argv)
    spread_out: list[str] = []
    option = ""
    for place, word in enumerate(argv):
        if word == "--":
            return [*spread_out, *argv[place:]]
        is_value = bool(option) and not word.startswith("--")
        if is_value and argv[place - 1] == option:
            spread_out.append(word)
        elif is_value and _is_further_value(argv[0], option, word):
            spread_out += [option, word]
        else:
            option = word if word in _SEVERAL else ""
            spread_out.append(word)
    return spread_out
