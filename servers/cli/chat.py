"""The loop of `graphrt chat`: read a line, ask, show the answer."""

from __future__ import annotations

import argparse
import base64
import collections
import contextlib
import http.client
import json
import mimetypes
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlsplit

from calculators.kit.child_process.early_start import child_environment, python_module
from servers.cli.messages import CommandFailed, print_error
from servers.load.client import error_message


class AnswerError(Exception):
    """The server refuses or fails; the text is its message."""


@dataclass(slots=True)
class ChatAnswer:
    """The part of an answer that has arrived.

    Attributes:
        calls: of tools, in the form of a message's ``tool_calls``.
        tokens: that were generated, as the server counts them; 0 where it does not.
        seconds: from the first token to the last one.
    """

    text: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str = ""
    tokens: int = 0
    seconds: float = 0.0
    first_token_seconds: float = 0.0


def stream_answer(
    url: str, body: Mapping[str, Any], key: str | None
) -> Generator[ChatAnswer, None, None]:
    """Send a request; yield the answer whenever something was added to it.

    Args:
        url: of the server with the path of the API, ``http://localhost:8000/v1``.

    Raises:
        AnswerError: there is no answer, or it breaks off.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "localhost", parts.port)
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    answer = ChatAnswer()
    sent = perf_counter()
    first: float | None = None
    has_ended = False
    try:
        connection.request(
            "POST", f"{parts.path}/chat/completions", json.dumps(body).encode(), headers
        )
        response = connection.getresponse()
        if response.status != 200:
            message = error_message(response.read(1 << 20))
            raise AnswerError(message or f"the server answers {response.status}")
        for line in response:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                has_ended = True
                continue
            if _add(json.loads(data), answer):
                now = perf_counter()
                first = now if first is None else first
                answer.first_token_seconds = first - sent
                answer.seconds = now - first
            yield answer
        if not has_ended:
            raise AnswerError("the answer broke off")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise AnswerError(f"{parts.netloc}: {str(error) or type(error).__name__}") from error
    finally:
        connection.close()


def _add(event: Mapping[str, Any], answer: ChatAnswer) -> bool:
    """Add the content of an event; return whether it had text or a call."""
    if event.get("error"):
        error = event["error"]
        raise AnswerError(str(error.get("message", error)) if isinstance(error, dict) else error)
    usage = event.get("usage")
    if usage:
        answer.tokens = usage.get("completion_tokens", 0)
    brought = False
    for choice in event.get("choices", ()):
        delta = choice.get("delta") or {}
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
        answer.text += delta.get("content") or ""
        answer.reasoning += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or ():
            _add_call(call, answer.calls)
        brought = brought or any(
            delta.get(name) for name in ("content", "reasoning_content", "tool_calls")
        )
    return brought


def _add_call(piece: Mapping[str, Any], calls: list[dict[str, Any]]) -> None:
    """Add a piece of a call to those before it."""
    while len(calls) <= piece.get("index", 0):
        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call = calls[piece.get("index", 0)]
    call["id"] = piece.get("id") or call["id"]
    function = piece.get("function") or {}
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""


_ADDRESS: Final = re.compile(r"graphrt serves (http://\S+)")
_FAILED: Final = re.compile(r"^  \S.*  failed: (.*)")
#: Seconds that a server gets to end.
_PATIENCE: Final = 10.0


class OwnServer:
    """`graphrt serve` as a child process, on a free port of this machine.

    A context manager: entering waits until the model is loaded, leaving ends the server.
    """

    def __init__(self, words: list[str], *, is_verbose: bool) -> None:
        """``words``: of the command line of `serve`, the model among them."""
        self._words = words
        self._is_verbose = is_verbose
        self._last_lines: collections.deque[str] = collections.deque(maxlen=20)
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> OwnServer:
        command = [*python_module("servers.cli"), "serve", *self._words]
        self._process = subprocess.Popen(
            [*command, "--rest_port", "auto"],
            env=child_environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C ends an answer, not the server.
            start_new_session=True,
        )
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        # Later log lines must not fill the pipe.
        threading.Thread(target=self._drain, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _wait(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._hear(line)
            failed = _FAILED.match(line)
            if failed is not None:
                raise CommandFailed(failed[1])
            address = _ADDRESS.search(line)
            if address is not None:
                self.url = f"{address[1]}/v1"
            if self.url and line.startswith("try:"):
                return
        self._process.wait()
        lines = list(self._last_lines)
        starts = [place for place, line in enumerate(lines) if line.startswith("error:")]
        # An error may have several lines, as an exporter's has.
        error = "".join(lines[starts[0] :]) if starts else ""
        raise CommandFailed(error.removeprefix("error: ").rstrip() or "no server starts")

    def _hear(self, line: str) -> None:
        self._last_lines.append(line)
        if self._is_verbose or line.lstrip("\r").startswith(("pulling ", "exporting ")):
            print(line, end="", file=sys.stderr, flush=True)

    def _drain(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._hear(line)

    def _end(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


#: Larger files are hardly images that a model would take.
_MOST_IMAGE_BYTES: Final = 20 << 20


class AttachmentError(Exception):
    """A file cannot be used; the text says why."""


class ChatConversation:
    """Messages from both sides, the system's message, tools, and images for the next message."""

    def __init__(self, system: str = "") -> None:
        self.system = system
        self.messages: list[dict[str, Any]] = []
        self.tools: list[Any] = []
        self._images: list[str] = []

    def attach_image(self, path: Path) -> None:
        """Send an image with the next message.

        Raises:
            AttachmentError: the file cannot be read, or is not an image.
        """
        media = mimetypes.guess_type(path.name)[0] or ""
        if not media.startswith("image/"):
            raise AttachmentError(f"{path}: its name is none of an image, as in picture.png")
        try:
            if path.stat().st_size > _MOST_IMAGE_BYTES:
                raise AttachmentError(f"{path} is larger than 20 MiB")
            data = path.read_bytes()
        except OSError as error:
            raise AttachmentError(f"{path}: {error.strerror}") from error
        self._images.append(f"data:{media};base64,{base64.b64encode(data).decode()}")

    def read_tools(self, path: Path) -> int:
        """Read tools from a file, a JSON array as in a request, and return their number.

        Raises:
            AttachmentError: the file cannot be read, or holds something else.
        """
        try:
            tools = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise AttachmentError(f"{path}: {error.strerror}") from error
        except ValueError as error:
            raise AttachmentError(f"{path} is not JSON: {error}") from error
        if not isinstance(tools, list):
            raise AttachmentError(
                f'{path} must hold a list: [{{"type": "function", "function": {{...}}}}]'
            )
        self.tools = tools
        return len(tools)

    def say(self, text: str) -> None:
        """Add a message of the user, with the images that wait for it."""
        content: Any = text
        if self._images:
            images = [{"type": "image_url", "image_url": {"url": url}} for url in self._images]
            content = [{"type": "text", "text": text}, *images]
            self._images = []
        self.messages.append({"role": "user", "content": content})

    def hear(self, text: str, calls: list[dict[str, Any]]) -> None:
        """Add an answer of the model."""
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = calls
        self.messages.append(message)

    def return_result(self, call_id: str, result: str) -> None:
        """Add the result of a call of a tool."""
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": result})

    def take_back(self) -> None:
        """Forget the last message of the user and all after it."""
        while self.messages and self.messages.pop()["role"] != "user":
            pass

    def body(self, model: str, **options: Any) -> dict[str, object]:
        """Return the request for the next answer; options that are None are left out."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        body: dict[str, Any] = {
            "model": model,
            "messages": [*system, *self.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.tools:
            body["tools"] = self.tools
        return body | {name: value for name, value in options.items() if value is not None}


_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"


class Screen:
    """Writes answers to standard output as they come."""

    def __init__(self, *, renders: bool) -> None:
        """``renders``: show markdown as it is meant; only on a terminal, and with rich."""
        self.is_terminal = sys.stdout.isatty()
        self._rich: Any = _rich() if renders and self.is_terminal else None
        self._live: Any = None
        self._shown = 0
        self._shown_reasoning = 0

    def begin(self) -> None:
        """Begin with an answer."""
        self._shown = self._shown_reasoning = 0
        if self._rich is not None:
            self._live = self._rich.live.Live(
                console=self._rich.console.Console(),
                refresh_per_second=12,
                vertical_overflow="visible",
            )
            self._live.start()

    def show(self, answer: ChatAnswer) -> None:
        """Show what was added to the answer."""
        if self._live is not None:
            self._live.update(self._rendered(answer))
            return
        reasoning = answer.reasoning[self._shown_reasoning :]
        self._shown_reasoning = len(answer.reasoning)
        text = answer.text[self._shown :]
        self._shown = len(answer.text)
        if reasoning:
            print(self._dimmed(reasoning), end="", flush=True)
        if text:
            if self._shown == len(text) and answer.reasoning:
                print()
            print(text, end="", flush=True)

    def end(self, answer: ChatAnswer | None) -> None:
        """End the answer: calls of tools, and how fast it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        else:
            print()
        if answer is None:
            return
        for call in answer.calls:
            function = call["function"]
            print(f"call: {function['name']}({function['arguments']})")
        if self.is_terminal and answer.tokens:
            speed = (answer.tokens - 1) / answer.seconds if answer.seconds else 0.0
            print(
                self._dimmed(
                    f"{answer.tokens} tokens, {speed:.1f} tokens/s, first after "
                    f"{answer.first_token_seconds * 1e3:.0f} ms"
                    + (" (cut off)" if answer.finish_reason == "length" else "")
                )
            )

    def _rendered(self, answer: ChatAnswer) -> Any:
        parts = []
        if answer.reasoning:
            parts.append(self._rich.text.Text(answer.reasoning, style="dim"))
        parts.append(self._rich.markdown.Markdown(answer.text))
        return self._rich.console.Group(*parts)

    def _dimmed(self, text: str) -> str:
        return f"{_DIM}{text}{_PLAIN}" if self.is_terminal else text


def _rich() -> Any:
    try:
        import rich.console
        import rich.live
        import rich.markdown
        import rich.text
    except ImportError:
        return None
    return rich


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
        model = args.model or next(iter(served_models(url, key)))
        chat = _Chat(args, url, model, key)
        return chat.run()


@contextlib.contextmanager
def _server(args: argparse.Namespace) -> Iterator[str]:
    if args.url is not None:
        url = with_scheme(args.url)
        yield url if url.endswith(("/v1", "/v3")) else f"{url}/v1"
        return
    if sys.stderr.isatty():
        print(f"loading {args.chat_model} ...", file=sys.stderr, flush=True)
    with OwnServer([args.chat_model], is_verbose=args.verbose) as server:
        yield server.url


def with_scheme(url: str) -> str:
    """Return a server's URL as it is used, for one that people write without a scheme."""
    return (url if "//" in url else f"http://{url}").rstrip("/")


def served_models(url: str, key: str | None) -> dict[str, Mapping[str, Any]]:
    """Return the models of a server by name; ``url``: with the path of the API.

    Raises:
        CommandFailed: it does not answer, or serves no model.
    """
    request = urllib.request.Request(f"{url}/models")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            found = {str(each["id"]): each for each in json.load(response)["data"]}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CommandFailed(
            f"{url}/models does not answer with models: {error}",
            hint="is the server running there? OPENAI_API_KEY has its key",
        ) from None
    if not found:
        raise CommandFailed(f"{url} serves no model", hint="is it still loading?")
    return found


class _Chat:
    """One conversation, and the commands in it."""

    def __init__(self, args: argparse.Namespace, url: str, model: str, key: str | None) -> None:
        self._url = url
        self._model = model
        self._key = key
        self._conversation = ChatConversation(args.system or "")
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
            # Other users of the machine may not read what was asked.
            file.chmod(0o600)
