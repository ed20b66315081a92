"""`main`: run the command line and return its exit code.

The module is the first act of every command, so it imports nothing slow. It handles signals until a
server has handlers of its own. Before argparse reads the words, OpenVINO Model Server's command
lines, dashes for underscores, switches with values, and options with several values are turned into
one spelling.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from types import FrameType

from calculators.kit.examples import example
from calculators.kit.memory import collect_seldom
from servers.cli.arguments import make_parser
from servers.cli.interrupt import INTERRUPTED
from servers.cli.messages import CommandFailed, print_error

_STREAM = re.compile(r"(?:[A-Z_][A-Z0-9_]*:(?:\d+:)?)?[a-z_][a-z0-9_]*\Z")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
_GRAPH_ENDINGS = (".pbtxt", ".textproto", ".binarypb", ".pb", ".json", ".jsonl")


def _is_module_or_file(text: str) -> bool:
    return text.endswith(".py") or (
        _MODULE.match(text) is not None and not text.endswith(_GRAPH_ENDINGS)
    )


#: Options that take several values, with a test for further values. The first word that fails the
#: test ends the values, so that the graph may follow them.
_SEVERAL: dict[str, Callable[[str], bool]] = {
    "--observe": lambda text: _STREAM.match(text) is not None,
    "--side-packet": lambda text: "=" in text,
    "--calculators": _is_module_or_file,
}


#: Options without a value, in all commands.
_SWITCHES = frozenset({"--expand", "--fold", "--json", "--observe-bounds", "--stream", "--verbose"})


def _is_further_value(command: str, option: str, word: str) -> bool:
    # Where a bare word is a calculator, a directory or a config.
    if command in ("batch", "calculators", "doctor", "serve"):
        return word.endswith(".py")
    return _SEVERAL[option](word)


def _with_plain_switches(argv: Sequence[str]) -> list[str]:
    """Turn ``--verbose true`` and ``--verbose=true`` into ``--verbose``; drop it with false."""
    plain: list[str] = []
    words = iter(enumerate(argv))
    for place, word in words:
        if word == "--":
            return [*plain, *argv[place:]]
        name, equals, value = word.partition("=")
        if name not in _SWITCHES:
            plain.append(word)
            continue
        from calculators.kit.settings.value_types import is_truth_value

        if not equals and place + 1 < len(argv) and is_truth_value(argv[place + 1]):
            _, value = next(words)
        if not is_truth_value(value):
            plain.append(word)
        elif value.lower() == "true":
            plain.append(name)
    return plain


#: Commands whose flags may be spelled with dashes, too.
_WITH_UNDERSCORES = (
    "serve",
    "pull",
    "configure",
    "tune",
    "list",
    "rm",
    "add-to-config",
    "remove-from-config",
    "batch",
    "bench",
    "chat",
)
#: OpenVINO Model Server's flags that choose what it does, and the words that stand for them here.
_MODES = {
    "--pull": ["pull"],
    "--configure": ["configure"],
    "--list_models": ["list", "--list_models"],
    "--add_to_config": ["add-to-config"],
    "--remove_from_config": ["remove-from-config"],
}


def _mode_of(word: str) -> list[str] | None:
    """Return the command for a flag that chooses what OpenVINO Model Server does, or None."""
    name, equals, value = word.replace("-", "_").replace("__", "--", 1).partition("=")
    if name not in _MODES or (equals and value.lower() == "false"):
        return None
    return _MODES[name]


_OF_EVERY_COMMAND = ("-h", "--help", "--version", "--")


def _with_command(argv: Sequence[str]) -> Sequence[str]:
    """Put the command in front of OpenVINO Model Server's flags, which stand alone there.

    ``--pull``, ``--list_models`` and the changes of configs may stand anywhere; the flags of
    `serve` count if one of them comes first.
    """
    if not argv or not argv[0].startswith("--") or argv[0] in _OF_EVERY_COMMAND:
        return argv
    modes = [(place, word, mode) for place, word in enumerate(argv) if (mode := _mode_of(word))]
    if len(modes) > 1:
        raise CommandFailed(
            f"{modes[0][1]} and {modes[1][1]} exclude each other",
            hint="each is a command of its own: write two lines",
            status=2,
        )
    for place, word, mode in modes:
        rest = list(argv[place + 1 :])
        if "=" in word:
            rest.insert(0, word.partition("=")[2])
        if rest and not rest[0].startswith("-"):
            # The releases of 2025 have the path here; switches may have `true`.
            value = rest.pop(0)
            if mode[0].endswith("-config"):
                rest = ["--config_path", value, *rest]
            elif value.lower() != "true":
                rest = [value, *rest]
        return [*mode, *argv[:place], *rest]
    from servers.cli.serve_arguments import is_serve_flag

    # argparse would take a command after the flags for a value of theirs: report it instead.
    if is_serve_flag(argv[0]) and "serve" not in argv:
        return ["serve", *argv]
    return argv


def spread(argv: Sequence[str]) -> list[str]:
    """Turn ``--observe a b`` into ``--observe a --observe b``, so that each value has its option.

    An option takes the values that look like its own, and not the graph after them.
    """
    argv = _with_plain_switches(_with_command(argv))
    if argv and argv[0] in _WITH_UNDERSCORES:
        from servers.cli.serve_arguments import normalize_flags

        argv = normalize_flags(argv)
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


def take_signals() -> None:
    """Let SIGHUP do nothing, and SIGTERM end the command with success.

    A configuration that is still being read needs no second reading. SIGHUP that is ignored, as
    under ``nohup``, stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    signal.signal(signal.SIGTERM, _end)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _do_nothing)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(0)  # an exception could end in the code that it interrupts, such as an author's import


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing; unlike SIG_IGN, child processes do not inherit it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code. Wrong usage raises argparse's ``SystemExit(2)``."""
    collect_seldom()
    try:
        try:
            status = _execute(argv)
        except SystemExit:  # after a help or a version, too
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return status
    except CommandFailed as failure:
        print_error(str(failure), failure.hint)
        return failure.status
    except BrokenPipeError:
        # The reader of standard output has gone, as in `graphrt ... | head`.
        discard_output()
        return 1
    except OSError as error:
        if not _is_output_broken():
            raise
        discard_output()
        print_error(f"standard output cannot be written: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _execute(argv: Sequence[str] | None) -> int:
    words = spread(sys.argv[1:] if argv is None else argv)
    if words[:1] != ["examples"]:
        words = [*map(_installed, words)]
    if words[:1] == ["serve"]:
        take_signals()
    parser = make_parser()
    if not words:  # as OpenVINO Model Server does
        parser.print_help()
        return 0
    # What follows is meant for the agent that is launched.
    ends = words[:1] == ["launch"] and "--" in words
    args = parser.parse_args(words[: words.index("--")] if ends else words)
    args.words = tuple(words)  # for a process that does the same
    status: int = import_module(args.module).execute(args)
    return status


def _installed(word: str) -> str:
    """Return the installed example that a word names as ``examples/...``, unless it lies here."""
    flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    if not value.startswith("examples/") or os.path.lexists(value):
        return word
    return f"{flag}{equals}{example(value) or value}"


def _is_output_broken() -> bool:
    """Return True if standard output takes no text."""
    try:
        sys.stdout.write("\n")  # what could not be written may be gone from the buffer
        sys.stdout.flush()
    except OSError:
        return True
    return False


def discard_output() -> None:
    """Send the rest of standard output to /dev/null, so that the interpreter's flush succeeds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
