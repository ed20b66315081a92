"""The loop of `graphrt chat`: read a line, ask, show the answer."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from servers.cli.chat.answer_stream import AnswerError, ChatAnswer, stream_answer
from servers.cli.chat.conversation import AttachmentError, Conversation
from servers.cli.chat.own_server import OwnServer
from servers.cli.chat.screen import Screen
from servers.cli.messages import CommandFailed, print_error

_HELP: Final = """\
/system TEXT   the system message; without TEXT none
/tools FILE    tools that the model may call: a JSON array as in a request; without FILE none
/image FILE    an image for the next message
/again         the last question once more
/clear         a new conversation
/bye           the end, as Ctrl-D"""
_HISTORY: Final = Path("~/.local/state/graphrt/chat_history")
_MOST_HISTORY: Final = 1000


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code, 1 when the last answer failed."""
    if (args.chat_model is None) == (args.url is None):
        raise CommandFailed(
            "use either MODEL, which is served for this chat, or --url",
            hint="graphrt chat MODEL, with anything that graphrt serve takes",
            status=2,
        )
    key = os.environ.get("OPENAI_API_KEY") or os.environ.get("API_KEY")
    with _server(args) as url:
        model = args.model or _first_model(url, key)
        chat = _Chat(args, url, model, key)
        return chat.run()


@contextlib.contextmanager
def _server(args: argparse.Namespace) -> Iterator[str]:
    if args.url is not None:
        url = args.url if "//" in args.url else f"http://{args.url}"
        yield url if url.rstrip("/").endswith(("/v1", "/v3")) else f"{url.rstrip('/')}/v1"
        return
    if sys.stderr.isatty():
        print(f"loading {args.chat_model} ...", file=sys.stderr, flush=True)
    with OwnServer([args.chat_model], is_verbose=args.verbose) as server:
        yield server.url


def _first_model(url: str, key: str | None) -> str:
    request = urllib.request.Request(f"{url}/models")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return str(json.load(response)["data"][0]["id"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CommandFailed(
            f"{url}/models does not answer with models: {error}",
            hint="is the server running there? --model names the model",
        ) from None


class _Chat:
    """One conversation, and the commands in it."""

    def __init__(self, args: argparse.Namespace, url: str, model: str, key: str | None) -> None:
        self._url = url
        self._model = model
        self._key = key
        self._conversation = Conversation(args.system or "")
        self._screen = Screen(renders=not args.plain)
        self._options = {"temperature": args.temperature, "max_tokens": args.max_tokens}
        self._is_interactive = sys.stdin.isatty()

    def run(self) -> int:
        failed = False
        if self._is_interactive:
            print(f"{self._model} at {self._url}; /? lists commands, Ctrl-D ends")
        with _line_history(self._is_interactive):
            for line in self._lines():
                if line.startswith("/"):
                    if not self._command(line):
                        break
                elif line.strip():
                    self._conversation.say(line)
                    failed = not self._answer()
        return 1 if failed else 0

    def _lines(self) -> Iterator[str]:
        while True:
            try:
                yield input("> " if self._is_interactive else "")
            except EOFError:
                return
            except KeyboardInterrupt:
                print()

    def _command(self, line: str) -> bool:
        """Follow a command; False ends the chat."""
        name, _, rest = line.partition(" ")
        rest = rest.strip()
        try:
            if name in ("/bye", "/exit", "/quit"):
                return False
            if name == "/clear":
                self._conversation.messages.clear()
            elif name == "/system":
                self._conversation.system = rest
            elif name == "/tools":
                count = self._conversation.read_tools(Path(rest)) if rest else 0
                if not rest:
                    self._conversation.tools = []
                print(f"{count} tools")
            elif name == "/image":
                self._conversation.attach_image(Path(rest).expanduser())
            elif name == "/again":
                self._again()
            else:
                print(_HELP)
        except AttachmentError as error:
            print_error(str(error))
        return True

    def _again(self) -> None:
        messages = self._conversation.messages
        while messages and messages[-1]["role"] != "user":
            messages.pop()
        if messages:
            self._answer()

    def _answer(self) -> bool:
        """Ask for the next answer, and again while results of tools are given."""
        while True:
            answer = self._ask()
            if answer is None:
                return False
            self._conversation.hear(answer.text, answer.calls)
            if not answer.calls:
                return True
            for call in answer.calls:
                name = call["function"]["name"]
                try:
                    result = input(f"result of {name}: " if self._is_interactive else "")
                except EOFError:
                    return True
                self._conversation.return_result(call["id"], result)

    def _ask(self) -> ChatAnswer | None:
        body = self._conversation.body(self._model, **self._options)
        answer: ChatAnswer | None = None
        self._screen.begin()
        try:
            with contextlib.closing(stream_answer(self._url, body, self._key)) as stream:
                for answer in stream:
                    self._screen.show(answer)
        except AnswerError as error:
            self._screen.end(None)
            print_error(str(error))
            self._conversation.take_back()
            return None
        except KeyboardInterrupt:
            # The connection is closed by now, which ends the generation.
            self._screen.end(answer)
            return answer
        self._screen.end(answer)
        return answer


@contextlib.contextmanager
def _line_history(is_interactive: bool) -> Iterator[None]:
    """Editing of lines, and the lines of earlier chats."""
    if not is_interactive:
        yield
        return
    try:
        import readline
    except ImportError:
        yield
        return
    file = _HISTORY.expanduser()
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        readline.set_history_length(_MOST_HISTORY)
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)
            file.chmod(0o600)
