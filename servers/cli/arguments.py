"""The commands and their arguments. Imports nothing slow, because ``--help`` imports this."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from servers.cli.model_commands import add_model_commands
from servers.cli.parser import CommandParser, VersionAction, add_command


class ProjectKind(NamedTuple):
    """One kind of project; its files are in ``examples/projects/NAME``.

    Attributes:
        summary: what the project serves.
        models: example models that are copied into its folder ``models``.
    """

    summary: str
    models: tuple[str, ...] = ()


KINDS: Final[Mapping[str, ProjectKind]] = MappingProxyType(
    {
        "calculator": ProjectKind("a calculator on arrays, served over KServe"),
        "chat_endpoint": ProjectKind("a chat endpoint whose answers are written in Python"),
        "guard": ProjectKind("a language model between guards of requests and answers", ("demo",)),
        "retrieval": ProjectKind("a search in passages of text, by vectors"),
        "vision": ProjectKind("an object detector with a calculator after it", ("shapes",)),
    }
)


#: The commands as `graphrt --help` shows them: those that people begin with first.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "serve and ask": ("serve", "chat", "launch", "batch", "bench"),
        "models": ("pull", "list", "rm", "configure", "tune", "index"),
        "graphs and calculators": (
            *("init", "new", "examples", "validate", "run", "describe", "calculators", "convert"),
        ),
        "configs": ("add-to-config", "remove-from-config", "config-schema"),
        "what a model reads and writes": ("render-prompt", "detect", "parse-output"),
        "this machine and its tools": ("doctor", "language-server", "completion"),
    }
)


def kinds_text() -> str:
    """Return the kinds as lines of a help text."""
    width = max(map(len, KINDS))
    return "\n".join(f"  {name:{width}}  {kind.summary}" for name, kind in KINDS.items())


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line. It sets ``module``, the command's module."""
    parser = CommandParser(
        prog="graphrt",
        usage="graphrt [-h] [--version] COMMAND ...",
        description="Serve models and MediaPipe graphs; check, draw and run graphs.",
        epilog="Standard output carries data, standard error everything else. "
        "Exit codes: 0 success,\n1 failure, 2 wrong usage. `graphrt COMMAND --help` shows a "
        "command's options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=VersionAction, nargs=0, help="print the version and exit"
    )
    commands = parser.add_subparsers(
        prog="graphrt", metavar="COMMAND", required=True, help=argparse.SUPPRESS
    )
    _add_validate(commands)
    _add_describe(commands)
    _add_convert(commands)
    _add_calculators(commands)
    _add_run(commands)
    _add_render_prompt(commands)
    _add_detect(commands)
    _add_parse_output(commands)
    _add_init(commands)
    _add_new(commands)
    _add_examples(commands)
    _add_serve(commands)
    _add_batch(commands)
    add_model_commands(commands)
    _add_chat(commands)
    _add_launch(commands)
    _add_bench(commands)
    _add_doctor(commands)
    _add_config_schema(commands)
    _add_language_server(commands)
    _add_completion(commands)
    parser.commands = commands.choices
    parser.description = f"{parser.description}\n\n{_grouped(commands)}"
    return parser


def _grouped(commands: argparse._SubParsersAction[CommandParser]) -> str:
    """Return the commands in their groups as lines of a help text."""
    summaries = {each.dest: each.help or "" for each in commands._choices_actions}
    width = max(map(len, summaries))
    lines = []
    for title, names in GROUPS.items():
        shown = [
            textwrap.fill(
                summaries[name],
                initial_indent=f"  {name:{width}}  ",
                subsequent_indent=" " * (width + 4),
                width=80,
            )
            for name in names
        ]
        lines += [f"{title}:", *shown, ""]
    return "\n".join(lines).rstrip()


def _add_sources(command: CommandParser, *, subgraphs: bool = True) -> None:
    """Add the arguments for further node types, and ``--verbose``."""
    command.add_argument(
        "--calculators",
        metavar="MODULE_OR_FILE",
        action="append",
        default=[],
        help="Python modules or .py files that register calculators",
    )
    if subgraphs:
        command.add_argument(
            "--subgraph",
            metavar="FILE",
            action="append",
            default=[],
            help="a graph to use as a node type, named by its `type`, else by the file's name;"
            " repeat for more. Subgraphs beside the graph's file are found without this option",
        )
    command.add_argument(
        "--verbose", action="store_true", help="print tracebacks of errors and log messages"
    )


def _add_validate(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "validate",
        "check graphs and configs, and report every error",
        "Each error names file, line and node, and says what would be right.\n"
        "The exit code is 1 if any file has an error.",
    )
    command.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help=".pbtxt, .binarypb, a server's config.json, or a directory with a graph.pbtxt",
    )
    command.add_argument("--format", choices=["text", "json"], default="text")
    _add_sources(command)


def _add_describe(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "describe",
        "print or draw a graph; show what a GGUF file holds",
        "Shows nodes, streams with their types, side packets, executors and back edges. Of a GGUF\n"
        "file: its architecture, types, parameters, context, template, and the memory it takes.",
    )
    command.add_argument(
        "graph",
        metavar="GRAPH",
        help=".pbtxt or .binarypb; or a GGUF file, or a directory with one",
    )
    command.add_argument(
        "--format", choices=["text", "mermaid", "dot", "svg", "json"], default="text"
    )
    folding = command.add_mutually_exclusive_group()
    folding.add_argument(
        "--expand", action="store_true", help="replace subgraphs by their nodes, each in its frame"
    )
    folding.add_argument(
        "--open",
        metavar="NODE,NODE/NODE",
        help="replace only the subgraphs of these nodes; inside a subgraph, a node is NAME/NAME",
    )
    folding.add_argument(
        "--fold",
        dest="expand",
        action="store_false",
        help="show subgraphs as single nodes, as written (the default)",
    )
    command.add_argument(
        "--direction",
        choices=["right", "down"],
        default="right",
        help="of the streams in an SVG drawing",
    )
    command.add_argument(
        "--theme",
        choices=["auto", "light", "dark"],
        default="auto",
        help="colors of an SVG drawing; auto follows the reader's settings",
    )
    _add_sources(command)


def _add_convert(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "convert",
        "print the graph of a DAG pipeline of OpenVINO Model Server",
        "The pipeline is served as this graph. As a graph.pbtxt it can have further nodes.",
    )
    command.add_argument(
        "--pipeline",
        metavar=("CONFIG", "NAME"),
        nargs="+",
        required=True,
        help="a config.json, and the name of the pipeline in it; without a name: the only one",
    )


def _add_calculators(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "calculators",
        "list the registered calculators, or show one",
        "With NAME: its description, ports and options, and a node to paste into a graph.",
    )
    command.add_argument("name", metavar="NAME", nargs="?")
    command.add_argument("--format", choices=["text", "json"], default="text")
    _add_sources(command, subgraphs=False)


_FEED_FORMAT = """\
The feed has one JSON object per line:
  {"stream": NAME, "ts": TIME, "value": VALUE}    add a packet
  {"close": NAME}                                 close a graph input
  {"set_bound": {"stream": NAME, "ts": TIME}}     promise that no packet comes before TIME
  {"wait_until_idle": true}                       run until nothing more can happen
  {"close_all_packet_sources": true}              close every graph input and every source
  {"cancel": true}                                end the run with an error
Blank lines and lines that start with # are skipped. After the feed every graph input is closed and
the run is finished.

TIME is an integer or PRESTREAM, MIN, MAX, POSTSTREAM. VALUE: a JSON integer is an int, 1.0 is a
float; {"type": T, "value": V} for other types: int64, float, bytes (base64), vector<int>,
ndarray<float32>, Timestamp, any message type. What cannot be JSON is printed in that form or as
{"type": T, "repr": TEXT}; floats that JSON lacks are the strings "NaN", "Infinity", "-Infinity".
"""


def _add_run(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
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
        "--feed",
        metavar="FILE",
        help="packets to add and calls to make, as JSON lines; - is standard input",
    )
    command.add_argument(
        "--video",
        metavar="FILE",
        help="a video whose frames go into the graph's input stream of images, at their times in"
        " microseconds",
    )
    command.add_argument(
        "--write-video",
        metavar="FILE",
        help="write the images of the printed streams to a video, such as drawn.mp4",
    )
    language = command.add_mutually_exclusive_group()
    language.add_argument(
        "--text",
        metavar="TEXT",
        help="a message to the language model of the graph; its answer is printed as it comes",
    )
    language.add_argument(
        "--chat",
        action="store_true",
        help="a conversation: each line of standard input is a message",
    )
    command.add_argument(
        "--deltas",
        action="store_true",
        help="print the items of answers, one JSON object per line, not their text",
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


def _add_init(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "init",
        "make a project: graph, calculator, test, config, README",
        "DIR is made, or is empty; nothing is ever overwritten. The project can be tested and\n"
        f"served as it is. Kinds:\n{kinds_text()}",
    )
    command.add_argument("directory", metavar="DIR")
    command.add_argument("--kind", choices=KINDS, default="calculator", help="default %(default)s")
    command.add_argument(
        "--name", metavar="NAME", help="of the project and of what it serves; default that of DIR"
    )


def _add_new(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "new",
        "write a calculator, its graph and its test",
        "Files that exist are not overwritten. `graphrt init` makes a whole project.",
    )
    command.add_argument("kind", choices=["calculator"])
    command.add_argument(
        "name", metavar="NAME", help="of its class, also in a package: Scale, acme.Scale"
    )
    command.add_argument(
        "directory", metavar="DIR", nargs="?", default="", help="default: the working directory"
    )


def _add_examples(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "examples",
        "list the example models, graphs, agents and projects, and copy them",
        "Without NAME: all of them with what they show. `all` copies everything into `examples`.\n"
        "Nothing is overwritten. One need not be copied to be served, run or validated: where no\n"
        "such file lies, `examples/...` is the installed one, and `demo` the model.",
    )
    command.add_argument("name", metavar="NAME", nargs="?", help="such as guard or graphs/guard")
    command.add_argument(
        "directory", metavar="DIR", nargs="?", help="a new or empty directory; default NAME"
    )


def _add_serve(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "serve",
        "serve models and graphs over HTTP and gRPC",
        "Listens at once, loads all graphs, and says on standard error what it serves and where.\n"
        "SIGTERM or Ctrl-C ends it when requests in flight are answered; a second one at once.\n"
        "SIGHUP reads the configuration again.",
    )
    command.set_defaults(module="servers.cli.early_serve")
    command.subject = "MODEL ..."
    command.add_later = _add_serve_later


def _add_serve_later(command: CommandParser) -> None:
    from servers.cli.serve_arguments import add_arguments

    add_arguments(command)
    _add_sources(command)


def _add_batch(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "batch",
        "answer a file of requests, without a server",
        "FILE has a request per line, in the form of OpenAI's batches: custom_id, method, url,\n"
        "body. Any endpoint and any graph may be named. MODEL is anything that `graphrt serve`\n"
        "takes. After an interruption the same command goes on where it was. Exit code 1 when a\n"
        "request failed.",
    )
    command.subject = "FILE MODEL ..."
    command.add_later = _add_batch_later


def _add_batch_later(command: CommandParser) -> None:
    from servers.cli.serve_arguments import add_arguments_of_batch

    command.add_argument("file", metavar="FILE", help="the requests, as JSON lines")
    command.add_argument(
        "--output", metavar="FILE", help="the answers; default FILE with .output.jsonl"
    )
    command.add_argument(
        "--errors", metavar="FILE", help="what failed; default FILE with .error.jsonl"
    )
    add_arguments_of_batch(command)
    _add_sources(command)


def _add_chat(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "chat",
        "talk with a model in the terminal",
        "MODEL is anything that `graphrt serve` takes; it is served for this chat alone. With\n"
        "--url the chat is with a server of the OpenAI API. /? in the chat lists its commands.",
    )
    command.add_argument("chat_model", metavar="MODEL", nargs="?")
    command.add_argument("--url", metavar="URL", help="as in http://localhost:8000")
    command.add_argument("--model", metavar="NAME", help="default the first one of the server")
    command.add_argument("--system", metavar="TEXT", help="what the model reads first")
    command.add_argument("--temperature", metavar="T", type=float, help="default the model's")
    command.add_argument(
        "--max_tokens", metavar="N", type=int, help="of an answer; default the server's"
    )
    command.add_argument("--plain", action="store_true", help="markdown as it is written")
    command.add_argument("--verbose", action="store_true", help="with the log of the own server")


def _add_launch(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "launch",
        "start a coding agent with a model of this machine",
        "MODEL is anything that `graphrt serve` takes; it is served for this agent alone. Without\n"
        "it, the agent gets a model of the server at --url, by default that on port 8000. What\n"
        "follows -- goes to the agent. Nothing that is set up for it elsewhere is read or changed.",
    )
    command.add_later = _add_agents
    command.add_argument("--url", metavar="URL", help="of a server, as in http://localhost:8000")
    command.add_argument("--model", metavar="NAME", help="default the first one of the server")
    command.add_argument(
        "--print",
        dest="print_settings",
        action="store_true",
        help="show the settings as lines for a shell, and start nothing",
    )
    command.add_argument(
        "--folder", metavar="DIR", help="of the agent's files; default in ~/.local/share/graphrt"
    )
    command.add_argument(
        "--anyway", action="store_true", help="also with a model that looks too small for the agent"
    )
    command.add_argument("--verbose", action="store_true", help="with the log of the own server")


def _add_agents(command: CommandParser) -> None:
    from servers.cli.launch import AGENTS

    command.add_argument("agent", choices=AGENTS, metavar="AGENT", help=", ".join(AGENTS))
    command.add_argument("launch_model", metavar="MODEL", nargs="?")


def _add_bench(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "bench",
        "measure a server of the OpenAI API",
        "Sends streamed requests, and prints latencies and throughput as vLLM's benchmark does.\n"
        "Exit code 1 when a request failed.",
    )
    command.subject = "--url URL"
    command.add_later = _add_bench_later


def _add_bench_later(command: CommandParser) -> None:
    from servers.cli.bench_arguments import add_arguments

    add_arguments(command)


def _add_render_prompt(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
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
        help="a GGUF file, or the directory with the model's chat template, or with a graph.pbtxt "
        "that names it",
    )


def _add_detect(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "detect",
        "show how a model writes calls and reasoning, by its chat template",
        "Renders conversations with the template and reads them back. Shows the form of calls,\n"
        "made of the rendering where no declaration fits, the marks of reasoning, the variables\n"
        "that switch it, and what the template wants of earlier turns.",
    )
    command.add_argument(
        "model",
        metavar="TEMPLATE_OR_MODEL",
        help="a .jinja file, a tokenizer_config.json, the directory of a model, or a GGUF file",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")


def _add_parse_output(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "parse-output",
        "print what a model's text means: content, reasoning, tool calls",
        "Reads the text from standard input, as the tokenizer gives it, and prints one JSON\n"
        'object: {"content", "reasoning_content", "tool_calls": [{"name", "arguments"}]},\n'
        "with the id of a call where the model writes one. With --jsonl it reads many answers.",
    )
    command.add_later = _add_parse_output_later


def _add_parse_output_later(command: CommandParser) -> None:
    from calculators.llm.parsers.registry import reasoning_parser_names, tool_parser_names

    for what, names in (("tool", tool_parser_names()), ("reasoning", reasoning_parser_names())):
        command.add_argument(
            f"--{what}-parser",
            metavar="NAME",
            default="none",
            help=f"{', '.join(names)}, one of an installed package, or none (the default)",
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
    command.add_argument(
        "--jsonl",
        action="store_true",
        help="standard input is JSON lines, each an answer: model_output, and maybe family or"
        " template (else the parsers of this command), tools_schemas (as --tools),"
        " rendered_prompt and finish_reason; prints a line for each, with an error where one is"
        " wrong, which makes the exit code 1",
    )


def _add_doctor(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
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


def _add_config_schema(commands: argparse._SubParsersAction[CommandParser]) -> None:
    add_command(
        commands,
        "config-schema",
        "print the JSON Schema of config.json",
        "Editors complete and check a config.json with it: `graphrt config-schema > schema.json`,\n"
        'and `"$schema": "./schema.json"` in the config.',
    )


def _add_language_server(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "language-server",
        "serve editors of graph files, by the Language Server Protocol",
        "Speaks on standard input and output; editors start it.\n"
        "Needs pip install 'graphrt[editor]'.",
    )
    command.add_argument("--stdio", action="store_true", help="the only way, so without effect")
    _add_sources(command)


def _add_completion(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "completion",
        "print a script that completes commands and flags in a shell",
        "The first lines of the script say where it belongs.",
    )
    command.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"))
