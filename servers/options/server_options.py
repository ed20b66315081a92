"""Options of the whole server, and the list of all declared options.

A field becomes a flag of ``graphrt serve``, its help, and a row of
``docs/reference/server_options.md``. Names are OpenVINO Model Server's if it has the option.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from calculators.kit.requests.request_queue import RequestQueue
from calculators.kit.settings import value_types
from calculators.kit.settings.declaration import Option, option, options_of
from calculators.kit.settings.families import settings_of_families
from calculators.kit.settings.groups import RUNNING
from servers.options.batch_options import BatchOptions
from servers.options.front_options import GrpcOptions, HttpOptions
from servers.options.groups import GRPC, HTTP, KEYS, ORDER, SERVED, TELEMETRY, TLS
from servers.options.model_options import ModelOptions, task_choice, task_options
from servers.options.page_options import PageOptions
from servers.options.repository_options import source_options

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
        "its directory, with a graph.pbtxt or a model; or a model's file",
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
    )
    cache_dir: str = option(
        "",
        "keep compiled models and converted GGUF files here, for faster starts; default: only "
        "converted files, in this user's cache",
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
        *settings_of_families(),
    )
    last = len(ORDER)
    places = {group: place for place, group in enumerate(ORDER)}
    options = (*source_options(), task_choice(), *task_options(), *options_of(*kinds))
    return tuple(sorted(options, key=lambda each: places.get(each.group, last)))
