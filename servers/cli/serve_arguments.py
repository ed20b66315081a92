"""The arguments of `graphrt serve`: OpenVINO Model Server's names, so that its scripts still start.

Imports nothing that takes time, as `servers.cli.arguments`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Final

from servers.cli import argument_types
from servers.cli.access_arguments import add_access_arguments
from servers.cli.media_arguments import add_media_arguments
from servers.cli.model_arguments import add_model_arguments
from servers.cli.task_arguments import add_task_arguments, task_switches
from servers.cli.telemetry_arguments import add_telemetry_arguments

#: Flags of existing start scripts that do nothing here yet, and what to say of each.
WITHOUT_EFFECT: Final[dict[str, str]] = {
    "grpc_workers": "one listening server answers all calls",
    "grpc_max_threads": "gRPC for Python chooses the number of its threads itself",
    "grpc_memory_quota": "gRPC for Python has no such limit; that of a message is --max_body_size",
    "rest_workers": "one event loop answers all requests, so there are no workers",
    "custom_node_resources_cleaner_interval_seconds": "there are no custom nodes",
    "cpu_extension": "libraries of custom operations are not loaded yet",
    "trace_path": "traces go to a collector, --otlp_endpoint; `graphrt run --trace` writes files",
}

#: Values besides 0 that say what is so anyway.
WITHOUT_EFFECT_AS: Final[dict[str, object]] = {"grpc_workers": 1}

#: These may stand without a value, as in OpenVINO Model Server.
_SWITCHES: Final = frozenset(
    {
        "log_prompts",
        "metrics_enable",
        "verbose_response",
        "allow_credentials",
        "allow_repository_control",
    }
)
_NUMBERS: Final = frozenset(
    {
        "grpc_workers",
        "grpc_max_threads",
        "grpc_memory_quota",
        "rest_workers",
        "custom_node_resources_cleaner_interval_seconds",
    }
)


def add_arguments(command: argparse.ArgumentParser) -> Callable[[], None]:
    """The arguments; what they mean together is checked in `servers.cli.serve`.

    What this returns adds those of tasks, which take time to look up.
    """
    command.add_argument(
        "config",
        metavar="CONFIG",
        nargs="?",
        help="a config.json; or a graph, a model's file, or a directory with a graph.pbtxt or a "
        "model, to serve only that",
    )
    what = command.add_argument_group("what is served, in other words")
    what.add_argument("--config_path", metavar="CONFIG", help="the same as CONFIG")
    what.add_argument("--model_name", metavar="NAME", help="the name of the one model")
    what.add_argument(
        "--model_path",
        metavar="DIR",
        help="its directory, with a graph.pbtxt or a model; or a model's file",
    )
    add_further = add_task_arguments(command)
    add_model_arguments(command)
    http = command.add_argument_group("HTTP")
    http.add_argument(
        "--rest_port",
        metavar="PORT",
        type=argument_types.rest_port,
        default=8000,
        help="default 8000; `auto` takes a free one, which is printed",
    )
    http.add_argument(
        "--rest_bind_address",
        metavar="HOSTS",
        type=argument_types.hosts,
        default="127.0.0.1",
        help="addresses with commas between them, IPv6 too; default 127.0.0.1: this machine only",
    )
    http.add_argument(
        "--allowed_hosts",
        metavar="HOSTS",
        type=argument_types.words,
        default=(),
        help="names besides localhost that clients may use for a server that only this machine "
        "reaches: those of a proxy in front of it",
    )
    http.add_argument(
        "--max_body_size",
        metavar="SIZE",
        type=argument_types.size,
        help="the largest request: 1048576, 512K, 64M; default 8M, and 64M with raw tensors",
    )
    grpc = command.add_argument_group("gRPC")
    grpc.add_argument(
        "--port",
        metavar="PORT",
        type=argument_types.rest_port,
        default=0,
        help="KServe's protocol over gRPC on this port; `auto` takes a free one, which is printed; "
        "default 0: no gRPC",
    )
    grpc.add_argument(
        "--grpc_bind_address",
        metavar="HOSTS",
        type=argument_types.hosts,
        default="127.0.0.1",
        help="as --rest_bind_address; default 127.0.0.1",
    )
    grpc.add_argument(
        "--grpc_channel_arguments",
        metavar="ARGUMENTS",
        type=argument_types.channel_arguments,
        default="",
        help="gRPC's own settings, NAME=VALUE with commas: grpc.max_concurrent_streams=100",
    )
    add_access_arguments(command)
    add_media_arguments(command)
    running = command.add_argument_group("running")
    running.add_argument(
        "--file_system_poll_wait_seconds",
        metavar="SECONDS",
        type=argument_types.seconds,
        default=1.0,
        help="how often to look for changes in the config, its graphs, subconfigs and Python files "
        "and for new versions of models; default 1; 0 does not look",
    )
    running.add_argument(
        "--idle_unload_seconds",
        metavar="SECONDS",
        type=argument_types.seconds,
        default=0.0,
        help="unload what nobody has asked for so long, until somebody does; default 0: never",
    )
    running.add_argument(
        "--request_queue_limit",
        metavar="N",
        type=argument_types.count,
        default=2048,
        help="requests of one graph in flight, waiting ones included; more get 429; default 2048",
    )
    running.add_argument(
        "--drain_seconds",
        metavar="SECONDS",
        type=argument_types.seconds,
        default=30.0,
        help="after SIGTERM or Ctrl-C, how long requests in flight may go on; default 30",
    )
    running.add_argument(
        "--verbose_response",
        metavar="BOOL",
        type=argument_types.switch,
        default=False,
        help="answers show the prompt as the model got it, and the raw text it wrote",
    )
    running.add_argument("--cache_dir", metavar="DIR", default="", help="keep compiled models here")
    add_telemetry_arguments(command)
    ignored = command.add_argument_group(
        "accepted, without effect",
        f"Existing start scripts may carry them: {', '.join(f'--{n}' for n in WITHOUT_EFFECT)}.",
    )
    for name in WITHOUT_EFFECT:
        ignored.add_argument(f"--{name}", type=_type_of(name), help=argparse.SUPPRESS)
    return add_further


def normalize_flags(words: Sequence[str]) -> list[str]:
    """``--rest-port`` is ``--rest_port``; a switch alone is switched on, and may have its value
    behind it or behind ``=``."""
    switches = _SWITCHES | task_switches()
    spelled: list[str] = []
    rest = iter(enumerate(words))
    for place, word in rest:
        if word == "--":
            return [*spelled, *words[place:]]
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = "--" + name[2:].replace("-", "_")
            if name[2:] in switches and not equals:
                equals, value = "=", "true"
                following = words[place + 1] if place + 1 < len(words) else ""
                if argument_types.is_truth_value(following):
                    value = following
                    next(rest)
        spelled.append(name + equals + value)
    return spelled


def _type_of(name: str) -> Callable[[str], object]:
    return argument_types.switch if name in _SWITCHES else int if name in _NUMBERS else str
