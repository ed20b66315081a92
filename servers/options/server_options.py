"""Options of the whole server, and the list of all declared options.

A field becomes a flag of ``graphrt serve``, its help, and a row of
``docs/reference/server_options.md``. Names are OpenVINO Model Server's if it has the option.

Flags of other servers are accepted without effect, refused with a reason, or named otherwise here.
Together with the declared options they are the whole command line of OpenVINO Model Server
(``cli_parser.cpp`` of its releases 2025.0 to 2026.2), with what the notes of 2026.4 add.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from calculators.kit.requests.request_queue import RequestQueue
from calculators.kit.requests.unknown_members import UnknownMembers
from calculators.kit.settings import value_types
from calculators.kit.settings.declaration import RUNNING, Option, option, options_of
from calculators.kit.tasks import settings_of_tasks
from servers.options.model_options import (
    BATCHES,
    GRPC,
    HTTP,
    KEPT,
    KEYS,
    LIMITS,
    ORDER,
    PAGE,
    PAGES,
    SERVED,
    TELEMETRY,
    TLS,
    ModelOptions,
    source_options,
    task_choice,
    task_options,
)

#: Flags that have no effect here: True if the flag takes a whole number, and the reason that is
#: printed.
WITHOUT_EFFECT: Final[dict[str, tuple[bool, str]]] = {
    "grpc_workers": (True, "--workers starts server processes, which share both ports"),
    "grpc_max_threads": (True, "gRPC for Python chooses the number of its threads itself"),
    "grpc_memory_quota": (
        True,
        "gRPC for Python has no such limit; --max_body_size limits a message",
    ),
    "rest_workers": (True, "--workers starts server processes, which share both ports"),
    "custom_node_resources_cleaner_interval_seconds": (True, "there are no custom nodes"),
    "trace_path": (
        False,
        "traces go to a collector, --otlp_endpoint; `graphrt run --trace` writes files",
    ),
    "num_streams": (
        True,
        "set NUM_STREAMS in --plugin_config; without it a model of embeddings has a stream for "
        "each processor",
    ),
    "sequence_cleaner_poll_wait_minutes": (True, "models with sequences are not served"),
    "max_length": (True, "models of embeddings have no fixed length here, which an NPU needs"),
    "idle_sequence_cleanup": (False, "models with sequences are not served"),
    "max_sequence_number": (True, "models with sequences are not served"),
}

#: Values besides 0 that ask for what is so anyway.
WITHOUT_EFFECT_AS: Final[dict[str, object]] = {"grpc_workers": 1, "num_streams": 1}

_SEQUENCES: Final = (
    "plain models keep no state between requests here",
    "send the state as an input, or serve the model with OpenVINO Model Server",
)

#: Flags that would change what a server does, and that are not served: the reason, and a remedy.
REFUSED: Final[dict[str, tuple[str, str]]] = {
    "stateful": _SEQUENCES,
    "low_latency_transformation": _SEQUENCES,
}

#: Flags of other servers, by the flag or argument that says the same here.
ELSEWHERE: Final[dict[str, str]] = {
    "api_key": "--api_key_file FILE",
    "download_dir": "--model_repository_path DIR",
    "gpu_memory_utilization": "--cache_size GB",
    "host": "--rest_bind_address HOSTS",
    "model": "MODEL, without a flag",
    "quantization": "--weight_format FORMAT",
    "revision": "MODEL@REVISION, without a flag",
    "served_model_name": "--model_name NAME",
    "tool_call_parser": "--tool_parser NAME",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """The options of the page, as the operator wrote them. None is ``auto``."""

    page: bool | None = option(
        None,
        "serve the page at / and the data that it shows: true, false, or auto: while only this "
        "machine can reach the server, or clients need keys or certificates; default auto",
        group=PAGE,
        metavar="WHEN",
        reads=value_types.switch_or_auto,
    )
    page_contents: bool = option(
        False,
        "let the page show texts of requests, values of packets and the texts of graph files",
        group=PAGE,
        metavar="BOOL",
        reads=value_types.switch,
    )
    page_edit: bool | None = option(
        None,
        "let the page check and try graphs that are not served, in child processes with limits: "
        "true, false, or auto: while only this machine can reach the server and no keys are set; "
        "default auto",
        group=PAGE,
        metavar="WHEN",
        reads=value_types.switch_or_auto,
    )
    page_operations: bool = option(
        False,
        "let the page show the last lines of the log, without prompts and tracebacks, and "
        "processor time and memory of the server's processes",
        group=PAGE,
        metavar="BOOL",
        reads=value_types.switch,
    )


_LOCAL = ("127.0.0.1",)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontOptions:
    """The options of both fronts."""

    request_seconds: float = option(
        0.0,
        "answer requests that take longer with 504; clients may shorten this with `timeout` in "
        "the body or X-Request-Timeout; default {default}: never",
        flag="request_timeout",
        group=LIMITS,
        metavar="SECONDS",
        reads=value_types.seconds,
    )
    max_connections: int = option(
        4096,
        "the most connections of HTTP, and of gRPC; further ones are refused; default {default}",
        group=LIMITS,
        metavar="N",
        reads=value_types.count,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions(FrontOptions):
    """The options of HTTP except its port."""

    hosts: tuple[str, ...] = option(
        _LOCAL,
        "addresses to listen on, separated by commas, IPv6 too; default {default}: this machine "
        "only",
        flag="rest_bind_address",
        group=HTTP,
        metavar="HOSTS",
        reads=value_types.hosts,
    )
    max_upload_bytes: int = option(
        25 << 20,
        "the largest request with files, multipart/form-data: 100M, 1G; default 25M, as OpenAI's "
        "API",
        flag="max_upload_size",
        group=HTTP,
        metavar="SIZE",
        reads=value_types.size,
    )
    ollama: bool = option(
        False,
        "also listen on 127.0.0.1:11434, where clients of Ollama look for it; its API is at /api "
        "of every port",
        group=HTTP,
        metavar="BOOL",
        reads=value_types.switch,
    )
    unknown_members: UnknownMembers = option(  # noqa: RUF009 - an enumeration is immutable
        UnknownMembers.WARN,
        "a part of a request that this server does not know, such as a new member or a hosted "
        "tool: `warn` leaves it out, names it in the header Warning and once in the log, and "
        "refuses only what looks like a misspelt member; `refuse` answers 400, `ignore` says "
        "nothing; default {default}",
        flag="unknown_fields",
        group=LIMITS,
        metavar="RULE",
        reads=value_types.one_of(tuple(UnknownMembers)),
        resolve=UnknownMembers,
    )
    response_store: str | None = option(
        None,
        "keep responses, conversations and stored chat completions in this directory, where they "
        "survive a restart; default: in memory, and with --workers in a directory that the server "
        "removes at its end",
        group=KEPT,
        metavar="DIR",
    )
    max_stored_responses: int = option(
        10_000,
        "the most responses, conversations and chat completions that are kept; what a client has "
        "not used for the longest time goes first, of the client that has the most; default "
        "{default}; 0: nothing is kept",
        group=KEPT,
        metavar="N",
        reads=value_types.count_or_zero,
    )
    max_stored_response_bytes: int = option(
        128 << 20,
        "the most bytes of them: 64M, 1G; default 128M",
        flag="max_stored_response_size",
        group=KEPT,
        metavar="SIZE",
        reads=value_types.size,
    )
    stored_response_minutes: int = option(
        24 * 60,
        "how long one is kept after it was made or continued; default {default}",
        group=KEPT,
        metavar="MINUTES",
        reads=value_types.count,
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        "host names, besides localhost, that requests may name while the server listens on this "
        "machine only, such as the name of a proxy in front of it",
        group=HTTP,
        metavar="HOSTS",
        reads=value_types.words,
    )
    allowed_origins: tuple[str, ...] = option(
        (),
        "origins of web pages that may call the server, separated by commas: "
        "https://console.example; `*` stands for all and needs API keys",
        group=PAGES,
        metavar="ORIGINS",
        reads=value_types.origins,
    )
    allowed_methods: tuple[str, ...] = option(
        (),
        "methods that pages may use: GET,POST; default: the methods of each path",
        group=PAGES,
        metavar="METHODS",
        reads=value_types.words,
    )
    allowed_headers: tuple[str, ...] = option(
        (),
        "headers that pages may send; default: the headers that clients of these APIs use",
        group=PAGES,
        metavar="HEADERS",
        reads=value_types.words,
    )
    allow_credentials: bool = option(
        False,
        "pages may send the browser's cookies and certificates; not with `*`",
        group=PAGES,
        metavar="BOOL",
        reads=value_types.switch,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcOptions(FrontOptions):
    """The options of gRPC except its port."""

    hosts: tuple[str, ...] = option(
        _LOCAL,
        "addresses to listen on, like --rest_bind_address; default {default}",
        flag="grpc_bind_address",
        group=GRPC,
        metavar="HOSTS",
        reads=value_types.hosts,
    )
    channel_arguments: Mapping[str, int | str] = option(
        MappingProxyType({}),
        "gRPC's own settings, NAME=VALUE separated by commas: grpc.max_concurrent_streams=100",
        flag="grpc_channel_arguments",
        group=GRPC,
        metavar="ARGUMENTS",
        reads=value_types.channel_arguments,
    )
    idle_seconds: float = option(
        3600.0,
        "end gRPC streams without messages for this long; default {default}; 0: never",
        flag="stream_idle_timeout",
        group=LIMITS,
        metavar="SECONDS",
        reads=value_types.seconds,
    )


#: Priorities of the requests of batches.
IDLE: Final = "idle"
NORMAL: Final = "normal"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options of batches. Without a directory there are no such paths."""

    batch_dir: str | None = option(
        None,
        "keep files and batches in this directory, and serve /v1/files and /v1/batches; "
        "default: they are not served",
        group=BATCHES,
        metavar="DIR",
    )
    batch_width: int = option(
        32,
        "the most requests of batches that run at a time; default {default}",
        group=BATCHES,
        metavar="N",
        reads=value_types.count,
    )
    batch_priority: str = option(
        IDLE,
        "idle: requests of batches have a processor while nothing else wants it; normal: they are "
        "equal to others, for a machine that other programs keep busy; default {default}",
        group=BATCHES,
        metavar="PRIORITY",
        reads=value_types.one_of((IDLE, NORMAL)),
    )
    batch_max_requests: int = option(
        1_000_000,
        "the most requests in one batch; default {default}",
        group=BATCHES,
        metavar="N",
        reads=value_types.count,
    )
    batch_file_size: int = option(
        16 << 30,
        "the largest file of a batch: 200M, 16G; default 16G",
        group=BATCHES,
        metavar="SIZE",
        reads=value_types.size,
    )


LOG_FORMATS: Final = ("text", "json")
CLUSTERS: Final = ("ray",)
#: The most processes of one server: each has a Python interpreter, and all meet in one supervisor.
MAX_WORKERS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options that only the start of a server reads: files, ports, log, metrics and traces."""

    config_path: str | None = option(None, "the same as CONFIG", group=SERVED, metavar="CONFIG")
    model_name: str | None = option(
        None, "the name of the model", group=SERVED, metavar="NAME", config_key="name"
    )
    model_path: str | None = option(
        None,
        "its directory, with a graph.pbtxt or a model; or a model's file; or the address of either "
        "in a store: s3://bucket/path, gs://, az://",
        group=SERVED,
        metavar="DIR",
        config_key="base_path",
    )
    on: str | None = option(
        None,
        "ray: run graphs and models in replicas on a Ray cluster, the one of $RAY_ADDRESS or of "
        "this machine; without any, one is started. Needs pip install 'graphrt[ray]'",
        group=RUNNING,
        metavar="CLUSTER",
        reads=value_types.one_of(CLUSTERS),
    )
    rest_port: int | str = option(
        8000,
        "the port of HTTP, default {default}; `auto` takes a free port and prints it; 0: no HTTP",
        group=HTTP,
        metavar="PORT",
        reads=value_types.rest_port,
    )
    max_body_size: int | None = option(
        None,
        "the largest request: 1048576, 512K, 64M; default 8M, and 64M with raw tensors",
        group=HTTP,
        metavar="SIZE",
        reads=value_types.size,
    )
    port: int | str = option(
        0,
        "the port of KServe's protocol over gRPC; `auto` takes a free port and prints it; "
        "default {default}: no gRPC",
        group=GRPC,
        metavar="PORT",
        reads=value_types.rest_port,
    )
    workers: int = option(
        1,
        "server processes that share the ports, for graphs whose cost is Python; each loads what "
        "is served, and processes of language models are shared; default {default}",
        group=RUNNING,
        metavar="N",
        reads=value_types.count_up_to(MAX_WORKERS),
    )
    api_key_file: str | None = option(
        None,
        "a key per line: requests over HTTP and gRPC need one of them, as `Authorization: "
        "Bearer KEY` or `x-api-key: KEY`; read again when it changes; default: $API_KEY if set",
        group=KEYS,
        metavar="FILE",
    )
    open_routes: tuple[str, ...] = option(
        (),
        "paths besides health that need no key, separated by commas: /metrics,/v3/models*",
        group=KEYS,
        metavar="ROUTES",
        reads=value_types.routes,
    )
    allow_repository_control: bool = option(
        False,
        "let every client load, unload and reload models; without it, clients need a key or a "
        "certificate, or the server must listen on this machine only",
        group=KEYS,
        metavar="BOOL",
        reads=value_types.switch,
    )
    allow_model_pulls: bool = option(
        False,
        "let clients who may load and unload models also download models of a hub into the "
        "directory of models and the config.json, and remove them: Ollama's /api/pull and "
        "/api/delete; needs a config.json",
        group=KEYS,
        metavar="BOOL",
        reads=value_types.switch,
    )
    tls_certificate: str | None = option(
        None,
        "the server's certificate and its chain, as PEM; read again when renewed",
        group=TLS,
        metavar="FILE",
        aliases=("ssl_certfile",),
    )
    tls_key: str | None = option(
        None,
        "the certificate's private key, as PEM",
        group=TLS,
        metavar="FILE",
        aliases=("ssl_keyfile",),
    )
    tls_client_ca: str | None = option(
        None,
        "authorities, as PEM: clients must show a certificate that one of them has signed",
        group=TLS,
        metavar="FILE",
    )
    metrics_enable: bool | None = option(
        None,
        "publish metrics for Prometheus at /metrics of the HTTP port; default true",
        group=TELEMETRY,
        metavar="BOOL",
        reads=value_types.switch,
        config_key="monitoring.metrics.enable",
    )
    metrics_list: tuple[str, ...] = option(
        (),
        "families of OpenVINO Model Server to publish instead of its default ones, separated by "
        "commas; graphrt's families are always published",
        group=TELEMETRY,
        metavar="NAMES",
        reads=value_types.words,
        config_key="monitoring.metrics.metrics_list",
    )
    log_level: str = option(
        "INFO",
        f"{', '.join(value_types.LOG_LEVELS)}; default {{default}}",
        group=TELEMETRY,
        metavar="LEVEL",
        reads=value_types.log_level,
    )
    log_path: str | None = option(
        None,
        "log to this file too; logrotate may move or remove it at any time",
        group=TELEMETRY,
        metavar="FILE",
    )
    log_format: str = option(
        "text",
        "text, or json: an object per line; default {default}",
        group=TELEMETRY,
        metavar="FORMAT",
        reads=value_types.one_of(LOG_FORMATS),
    )
    log_prompts: bool = option(
        False,
        "log the prompts and answers of language models; never logged otherwise",
        group=TELEMETRY,
        metavar="BOOL",
        reads=value_types.switch,
    )
    otlp_endpoint: str | None = option(
        None,
        "send traces to this OpenTelemetry collector: http://localhost:4318; configure the rest "
        "by OpenTelemetry's variables (OTEL_TRACES_SAMPLER, ...); default: the collector that they "
        "name, else none",
        group=TELEMETRY,
        metavar="URL",
        reads=value_types.url,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleOptions:
    """Options that the settings of the server's life inherit."""

    poll_seconds: float = option(
        1.0,
        "how often to look for changes in the config, its graphs, subconfigs and Python files "
        "and for new versions of models; default {default}; 0: never",
        flag="file_system_poll_wait_seconds",
        group=RUNNING,
        metavar="SECONDS",
        reads=value_types.seconds,
    )
    drain_seconds: float = option(
        30.0,
        "how long requests in flight may continue after SIGTERM or Ctrl-C; default {default}",
        group=RUNNING,
        metavar="SECONDS",
        reads=value_types.seconds,
    )


#: The library of operations of models that read and write text, and its file.
_TOKENIZERS: Final = "openvino_tokenizers"
_TOKENIZERS_FILES: Final = (f"lib{_TOKENIZERS}.so", f"{_TOKENIZERS}.dll")


def _library(text: str) -> str:
    """Read the path of a library, or the name of one that comes with a package."""
    if Path(text).is_file():
        return os.path.abspath(text)
    if Path(text).name in _TOKENIZERS_FILES:
        # Start scripts name the file of OpenVINO Model Server's image.
        return _TOKENIZERS
    if text.isidentifier():
        return text
    raise argparse.ArgumentTypeError(f"{text}: no such file")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions(RequestQueue):
    """Options that the settings of served graphs and models inherit."""

    idle_unload_seconds: float = option(
        0.0,
        "unload graphs and models without requests for this long, until the next request; "
        "default {default}: never",
        group=RUNNING,
        metavar="SECONDS",
        reads=value_types.seconds,
        config_key="{flag}",
        aliases=("idle_unload_timeout_seconds",),
    )
    ignores_further_inputs: bool = option(
        False,
        "plain models leave out inputs of a KServe request that they do not have, instead of "
        "answering 400",
        flag="disable_input_count_validation",
        group=LIMITS,
        metavar="BOOL",
        reads=value_types.switch,
    )
    cpu_extension: str = option(
        "",
        "a library of operations that plain models may have: a file, or openvino_tokenizers for "
        "the one of models that read and write text",
        group=RUNNING,
        metavar="FILE",
        reads=_library,
    )
    cache_dir: str = option(
        "",
        "keep compiled models, converted GGUF files and what is downloaded from stores here; "
        "default: all but compiled models, in this user's cache",
        group=RUNNING,
        metavar="DIR",
    )
    cache_dir_size: int = option(
        32 << 30,
        "the most that --cache_dir, or this user's cache, may hold: 20G; what was used longest ago "
        "goes first; default 32G",
        group=RUNNING,
        metavar="SIZE",
        reads=value_types.size,
    )


def declared_options() -> tuple[Option, ...]:
    """Return the options of the server, the tasks and the families, in the order of the help."""
    kinds: tuple[type[Any], ...] = (
        ServerOptions,
        ModelOptions,
        HttpOptions,
        GrpcOptions,
        PageOptions,
        BatchOptions,
        LifecycleOptions,
        GraphOptions,
        *settings_of_tasks(),
    )
    last = len(ORDER)
    places = {group: place for place, group in enumerate(ORDER)}
    options = (*source_options(), task_choice(), *task_options(), *options_of(*kinds))
    return tuple(sorted(options, key=lambda each: places.get(each.group, last)))
