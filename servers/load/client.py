"""A client of streamed answers that records the arrival of tokens."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import aiohttp

#: Width of the log-normal distributions of lengths, as in chat logs: many short, a long tail.
_SPREAD: Final = 0.6
#: The fewest words of a prompt, and tokens of an answer.
SHORTEST: Final = 4
#: Tokens per word of `WORDS`, for tokenizers of English text.
_TOKENS_PER_WORD: Final = 1.3

_TEXT: Final = (
    "about after again against along another answer around asked because become before behind "
    "best better between bring brought called carry change children city close color could "
    "country cover cross direct draw early earth enough every example family father figure final "
    "follow friend garden ground group happen heard house hundred idea island kind large later "
    "learn letter light listen little machine measure might money morning mother mountain music "
    "never night notice number often order other paper people person picture place plain point "
    "possible question quick reach ready remember river second sentence several short should "
    "simple since small sound special stand start still story street strong table their these "
    "thing think thought through together travel turn under usual voice watch water weather week "
    "white whole window winter without wonder world would write year young"
)
WORDS: Final = tuple(_TEXT.split())


class DatasetError(ValueError):
    """A file of requests cannot be used; the text names the line."""


@dataclass(frozen=True, slots=True)
class BenchmarkPrompt:
    """One request.

    Attributes:
        messages: of a chat; one of the user's for a plain text.
        output_tokens: the most that are generated; None leaves it to the server.
    """

    messages: Sequence[Mapping[str, Any]]
    output_tokens: int | None = None

    @property
    def text(self) -> str:
        """The messages' texts, for endpoints that take no chat."""
        return "\n".join(str(message.get("content", "")) for message in self.messages)


def random_prompts(
    count: int, *, input_tokens: float, output_tokens: float, varies: bool, seed: int
) -> list[BenchmarkPrompt]:
    """Make distinct prompts, so that no cache of prefixes serves two of them.

    Args:
        input_tokens, output_tokens: means; a server counts its own.
        varies: log-normal lengths about the means, as in chat logs; else all are as long.
    """
    chance = random.Random(seed)

    def length(mean: float) -> float:
        if not varies:
            return mean
        return chance.lognormvariate(math.log(mean) - _SPREAD**2 / 2, _SPREAD)

    prompts: list[BenchmarkPrompt] = []
    for _ in range(count):
        text = words(chance, round(length(input_tokens) / _TOKENS_PER_WORD))
        tokens = max(SHORTEST, round(length(output_tokens)))
        prompts.append(BenchmarkPrompt(({"role": "user", "content": text},), tokens))
    return prompts


def words(chance: random.Random, count: int) -> str:
    """Return random words; the first ones already differ from one text to the next."""
    return " ".join(chance.choices(WORDS, k=max(SHORTEST, count)))


def read_prompts(file: Path, count: int | None) -> list[BenchmarkPrompt]:
    """Read requests from JSON lines, and repeat them until there are ``count``.

    A line has ``messages``, or ``prompt``, and may have ``max_tokens``
    (``output_tokens`` as in vLLM's custom data sets).

    Raises:
        DatasetError: a line has neither, or is not a JSON object.
        OSError: the file cannot be read.
    """
    prompts = [
        _prompt_of(line, number)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if line.strip()
    ]
    if not prompts:
        raise DatasetError(f"{file}: no request is in it")
    if count is None:
        return prompts
    return [prompts[number % len(prompts)] for number in range(count)]


def _prompt_of(line: str, number: int) -> BenchmarkPrompt:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"line {number} is not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise DatasetError(f"line {number} is not a JSON object")
    tokens = value.get("max_tokens", value.get("output_tokens"))
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise DatasetError(f"line {number}: max_tokens is not a positive number")
    messages = value.get("messages")
    if isinstance(messages, list) and all(isinstance(each, Mapping) for each in messages):
        return BenchmarkPrompt(tuple(messages), tokens)
    if isinstance(value.get("prompt"), str):
        return BenchmarkPrompt(({"role": "user", "content": value["prompt"]},), tokens)
    raise DatasetError(f"line {number} has neither messages nor a prompt")


@dataclass(slots=True)
class RequestOutcome:
    """A request's times, in seconds of one clock.

    Attributes:
        arrivals: times at which tokens came; tokens that came together are one arrival.
        input_tokens, output_tokens: as the server counts them; of a server that does not, the
            arrivals are counted.
        text: the answer.
        error: "" if it succeeded.
    """

    sent: float
    arrivals: list[float] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    text: str = ""
    error: str = ""

    @property
    def is_good(self) -> bool:
        return not self.error and bool(self.arrivals)

    @property
    def ttft(self) -> float:
        """Seconds from sending to the first token."""
        return self.arrivals[0] - self.sent

    @property
    def tpot(self) -> float | None:
        """Seconds per token after the first; None: there is no other."""
        if self.output_tokens < 2:
            return None
        return (self.arrivals[-1] - self.arrivals[0]) / (self.output_tokens - 1)

    @property
    def gaps(self) -> list[float]:
        """Seconds between two arrivals."""
        return [
            after - before for before, after in zip(self.arrivals, self.arrivals[1:], strict=False)
        ]

    @property
    def e2el(self) -> float:
        """Seconds from sending to the last token."""
        return self.arrivals[-1] - self.sent


def error_message(body: str | bytes) -> str | None:
    """Return the message in OpenAI's form of errors; None if the body has another form."""
    try:
        error = json.loads(body)["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        return None


CHAT: Final = "/chat/completions"
COMPLETIONS: Final = "/completions"


class BenchmarkClient:
    """Asks one endpoint for streamed answers.

    Args:
        url: of the endpoint, `CHAT` or `COMPLETIONS` at its end.
        extra: further members of every request.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        model: str,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._session = session
        self._url = url
        self._model = model
        self._extra = dict(extra or {})
        self._is_chat = url.rstrip("/").endswith(CHAT)

    def body(self, prompt: BenchmarkPrompt) -> bytes:
        """Make the request body for a prompt."""
        body: dict[str, Any] = {
            "model": self._model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._is_chat:
            body["messages"] = prompt.messages
        else:
            body["prompt"] = prompt.text
        if prompt.output_tokens is not None:
            body["max_tokens"] = prompt.output_tokens
        return json.dumps({**body, **self._extra}).encode()

    async def ask(self, body: bytes) -> RequestOutcome:
        """Send a request and read its answer; a failure is a part of the outcome."""
        outcome = RequestOutcome(perf_counter())
        try:
            async with self._session.post(
                self._url, data=body, headers={"Content-Type": "application/json"}
            ) as response:
                if response.status != 200:
                    outcome.error = f"{response.status}: {await _reason(response)}"
                    return outcome
                has_ended = False
                async for time, data in _events(response.content):
                    if data == b"[DONE]":
                        has_ended = True
                    else:
                        _take(json.loads(data), time, outcome)
                if not has_ended and not outcome.error:
                    outcome.error = "the stream broke off"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            outcome.error = str(error) or type(error).__name__
        except ValueError:
            outcome.error = "an event of the stream is not JSON"
        outcome.output_tokens = outcome.output_tokens or len(outcome.arrivals)
        return outcome


async def _reason(response: aiohttp.ClientResponse) -> str:
    """Return the message of an error response, in OpenAI's form or any other."""
    text = (await response.text(errors="replace"))[:2000]
    return error_message(text) or text.strip()[:200]


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[tuple[float, bytes]]:
    """Yield the data of each server-sent event with the time at which it arrived."""
    rest = b""
    async for piece in content.iter_any():
        time = perf_counter()
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield time, line[5:].strip()


def _take(event: Mapping[str, Any], time: float, outcome: RequestOutcome) -> None:
    """Add the content of one event to the outcome."""
    if event.get("error"):
        outcome.error = json.dumps(event["error"])
    usage = event.get("usage")
    if usage:
        outcome.input_tokens = usage.get("prompt_tokens", 0)
        outcome.output_tokens = usage.get("completion_tokens", 0)
    for choice in event.get("choices", ()):
        delta = choice.get("delta") or {}
        text = delta.get("content") or choice.get("text") or ""
        outcome.text += text
        has_tokens = text or delta.get("reasoning_content") or delta.get("tool_calls")
        # The last event has no text when the last token is half a character.
        has_tokens = has_tokens or (choice.get("finish_reason") and outcome.arrivals)
        if has_tokens and time not in outcome.arrivals[-1:]:
            outcome.arrivals.append(time)


async def run_load(
    client: BenchmarkClient,
    prompts: Sequence[BenchmarkPrompt],
    *,
    concurrency: int | None = None,
    rate: float | None = None,
    burstiness: float = 1.0,
    seed: int = 0,
    on_outcome: Callable[[RequestOutcome], None] = lambda outcome: None,
) -> tuple[list[RequestOutcome], float]:
    """Send all requests.

    Args:
        concurrency: the most requests in flight; None is no bound.
        rate: requests per second; None sends them as soon as ``concurrency`` allows.
        burstiness: 1 is a Poisson process, less comes in bursts, more evenly (shape of the gamma
            distribution, as vLLM has it).

    Returns:
        The outcomes in order of the requests, and the seconds that it took.
    """
    bodies = [client.body(prompt) for prompt in prompts]
    outcomes: list[RequestOutcome | None] = [None] * len(bodies)
    room = asyncio.Semaphore(concurrency or max(1, len(bodies)))

    async def ask(number: int) -> None:
        try:
            outcomes[number] = outcome = await client.ask(bodies[number])
            on_outcome(outcome)
        finally:
            room.release()

    started = perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, moment in enumerate(arrivals(len(bodies), rate, burstiness, seed)):
            await asyncio.sleep(max(0.0, started + moment - perf_counter()))
            await room.acquire()
            group.create_task(ask(number))
    duration = perf_counter() - started
    return [outcome for outcome in outcomes if outcome is not None], duration


def arrivals(count: int, rate: float | None, burstiness: float, seed: int) -> Iterator[float]:
    """Yield the seconds from the start at which requests are sent."""
    chance = random.Random(seed)
    moment = 0.0
    for _ in range(count):
        yield moment
        if rate is not None:
            moment += chance.gammavariate(burstiness, 1.0 / (rate * burstiness))
