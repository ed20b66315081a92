"""`graphrt bench`: load on a server of the OpenAI API, and its figures."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from servers.cli.messages import CommandFailed, print_warning
from servers.load.client import (
    CHAT,
    COMPLETIONS,
    BenchmarkClient,
    BenchmarkPrompt,
    DatasetError,
    RequestOutcome,
    random_prompts,
    read_prompts,
    run_load,
)
from servers.load.figures import OBJECTIVES, Run, figures_of, page, side_by_side, table, to_json

_REQUESTS: Final = 64
_ENDPOINTS: Final = {"chat": CHAT, "completions": COMPLETIONS}


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code, 1 when a request failed."""
    prompts = _prompts(args)
    objectives = _objectives(args.goodput)
    extra = _extra(args)
    if args.against_model is not None and args.against is None:
        raise CommandFailed("--against_model needs --against: of which server?", status=2)
    targets = [(args.url, args.model)]
    if args.against is not None:
        targets.append((args.against, args.against_model))
    runs = asyncio.run(_measure_all(args, targets, prompts, objectives, extra))
    (figures, settings), *others = runs
    if others:
        shown = [str(each["url"]) for _, each in runs]
        print(side_by_side([each for each, _ in runs], shown))
    else:
        print(table(figures))
    if args.json is not None:
        result = to_json(figures, settings, keeps_texts=args.texts)
        for other, theirs in others:
            result["against"] = to_json(other, theirs, keeps_texts=args.texts)
        _write(args.json, json.dumps(result) + "\n")
    if args.html is not None:
        _write(args.html, page(*runs))
    return 1 if any(each.failed for each, _ in runs) else 0


async def _measure_all(
    args: argparse.Namespace,
    targets: Sequence[tuple[str, str | None]],
    prompts: Sequence[BenchmarkPrompt],
    objectives: dict[str, float],
    extra: dict[str, Any],
) -> list[Run]:
    """Measure one server after the other: at the same time each would slow the other down."""
    return [await _measure(args, url, model, prompts, objectives, extra) for url, model in targets]


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from error


def _prompts(args: argparse.Namespace) -> list[BenchmarkPrompt]:
    count = args.requests
    if args.dataset is None:
        return random_prompts(
            count or _REQUESTS,
            input_tokens=args.input_tokens,
            output_tokens=args.output_tokens,
            varies=not args.fixed_lengths,
            seed=args.seed,
        )
    try:
        return read_prompts(Path(args.dataset), count)
    except DatasetError as error:
        raise CommandFailed(
            f"{args.dataset}: {error}",
            hint='a line is {"messages": [...]} or {"prompt": "..."}, with "max_tokens" if wanted',
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{args.dataset}: {error}") from error


def _objectives(words: Sequence[str]) -> dict[str, float]:
    """Parse objectives: ``ttft:200`` is a first token after at most 200 ms."""
    objectives: dict[str, float] = {}
    for word in words:
        name, _, value = word.partition(":")
        try:
            objectives[name] = float(value)
        except ValueError:
            name = ""
        if name not in OBJECTIVES:
            raise CommandFailed(
                f"--goodput {word}: no objective",
                hint=f"it is NAME:MILLISECONDS with one of {', '.join(OBJECTIVES)}: ttft:200",
                status=2,
            )
    return objectives


def _extra(args: argparse.Namespace) -> dict[str, Any]:
    extra: dict[str, Any] = {"temperature": args.temperature}
    if args.ignore_eos:
        extra["ignore_eos"] = True
    if args.extra_body is not None:
        try:
            further = json.loads(args.extra_body)
        except ValueError as error:
            raise CommandFailed(f"--extra_body is not JSON: {error}", status=2) from None
        if not isinstance(further, dict):
            raise CommandFailed("--extra_body must be a JSON object", status=2)
        extra |= further
    return extra


async def _measure(
    args: argparse.Namespace,
    url: str,
    model: str | None,
    prompts: Sequence[BenchmarkPrompt],
    objectives: dict[str, float],
    extra: dict[str, Any],
) -> Run:
    key = args.api_key or os.environ.get("OPENAI_API_KEY") or os.environ.get("API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession(
        headers=headers,
        # aiohttp's pool opens at most 100 connections and ends a request after five minutes: both
        # would bound the load that is to be measured.
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
    ) as session:
        base = _base(url)
        model = model or await _only_model(session, base)
        url = base if base.endswith((CHAT, COMPLETIONS)) else base + _ENDPOINTS[args.endpoint]
        client = BenchmarkClient(session, url, model, extra)
        await _warm_up(client, prompts, args.warm_up)
        progress = _BenchmarkProgress(len(prompts))
        outcomes, duration = await run_load(
            client,
            prompts,
            concurrency=args.concurrency,
            rate=args.rate,
            burstiness=args.burstiness,
            seed=args.seed,
            on_outcome=progress.count,
        )
        progress.end()
    settings = {
        "date": datetime.now().strftime("%Y%m%d-%H%M%S"),
        "backend": "openai-chat" if url.endswith(CHAT) else "openai",
        "url": url,
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": len(prompts),
        "request_rate": args.rate if args.rate is not None else "inf",
        "burstiness": args.burstiness,
        "max_concurrency": args.concurrency,
    }
    return figures_of(outcomes, duration, objectives), settings


def _base(url: str) -> str:
    """Return a URL with a path: its own, else ``/v1``, where clients of OpenAI start."""
    parts = urlsplit(url if "//" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandFailed(
            f"{url}: no URL of a server", hint="as in http://localhost:8000", status=2
        )
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


async def _only_model(session: aiohttp.ClientSession, base: str) -> str:
    """Return the name of the one model that the server has."""
    root = base.removesuffix(CHAT).removesuffix(COMPLETIONS)
    try:
        async with session.get(f"{root}/models") as response:
            response.raise_for_status()
            names = [each["id"] for each in (await response.json(content_type=None))["data"]]
    except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError) as error:
        raise CommandFailed(
            f"{root}/models does not answer with models: {error}",
            hint="is the server running there? --url and --against name others, --model the model",
        ) from None
    if len(names) != 1:
        raise CommandFailed(
            f"the server has {len(names)} models: {', '.join(names)}", hint="choose by --model"
        )
    return str(names[0])


async def _warm_up(client: BenchmarkClient, prompts: Sequence[BenchmarkPrompt], count: int) -> None:
    for number in range(count):
        outcome = await client.ask(client.body(prompts[number % len(prompts)]))
        if not outcome.is_good:
            raise CommandFailed(f"the first request failed: {outcome.error or 'no token came'}")


class _BenchmarkProgress:
    """Shows the number of finished requests on a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._failed = 0

    def count(self, outcome: RequestOutcome) -> None:
        self._done += 1
        self._failed += not outcome.is_good
        if sys.stderr.isatty():
            failed = f", {self._failed} failed" if self._failed else ""
            text = f"\r{self._done} of {self._total} requests{failed}\x1b[K"
            print(text, end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        if self._failed:
            print_warning(f"{self._failed} of {self._total} requests failed")
