"""The arguments of `graphrt bench`."""

from __future__ import annotations

import argparse

from calculators.kit.settings.value_types import count


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0")
    return value


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments; `servers.cli.bench` reads them."""
    server = command.add_argument_group("the server")
    server.add_argument("--url", default="http://localhost:8000", help="default %(default)s, /v1")
    server.add_argument("--model", metavar="NAME", help="default the only one that it has")
    server.add_argument(
        "--endpoint", choices=("chat", "completions"), default="chat", help="default %(default)s"
    )
    server.add_argument("--api_key", metavar="KEY", help="default $OPENAI_API_KEY, $API_KEY")
    server.add_argument(
        "--against",
        metavar="URL",
        help="another server that gets the same requests afterwards; both are shown side by side",
    )
    server.add_argument(
        "--against_model", metavar="NAME", help="its model; default the only one that it has"
    )

    load = command.add_argument_group("the load")
    load.add_argument(
        "--requests", metavar="N", type=count, help="default 64, or all of the data set"
    )
    load.add_argument("--concurrency", metavar="N", type=count, help="the most requests at a time")
    load.add_argument(
        "--rate", metavar="R", type=_positive, help="requests per second; default all at once"
    )
    load.add_argument(
        "--burstiness",
        metavar="SHAPE",
        type=_positive,
        default=1.0,
        help="1 is a Poisson process, less has bursts, more is even; default %(default)s",
    )
    load.add_argument("--warm_up", metavar="N", type=int, default=1, help="default %(default)s")
    load.add_argument("--seed", metavar="N", type=int, default=0, help="default %(default)s")

    prompts = command.add_argument_group("the requests")
    prompts.add_argument(
        "--dataset",
        metavar="FILE",
        help='JSON lines with "messages" or "prompt", and "max_tokens"; default random words',
    )
    prompts.add_argument(
        "--input_tokens",
        metavar="N",
        type=_positive,
        default=215.0,
        help="of random prompts, in the mean; default %(default)g",
    )
    prompts.add_argument(
        "--output_tokens",
        metavar="N",
        type=_positive,
        default=200.0,
        help="max_tokens of random prompts, in the mean; default %(default)g",
    )
    prompts.add_argument(
        "--fixed_lengths", action="store_true", help="all random prompts are as long"
    )
    prompts.add_argument("--temperature", metavar="T", type=float, default=0.0)
    prompts.add_argument(
        "--ignore_eos", action="store_true", help="answers are as long as they may be"
    )
    prompts.add_argument(
        "--extra_body", metavar="JSON", help="further members of every request: an object"
    )

    results = command.add_argument_group("the results")
    results.add_argument(
        "--goodput",
        metavar="NAME:MS",
        nargs="+",
        default=[],
        help="count requests that keep these: ttft:200 tpot:50 e2el:5000",
    )
    results.add_argument("--json", metavar="FILE", help="in the form of vLLM's benchmark")
    results.add_argument("--texts", action="store_true", help="with the answers in the JSON")
    results.add_argument("--html", metavar="FILE", help="charts, on a page of their own")
