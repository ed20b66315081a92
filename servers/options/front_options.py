"""The options that the settings of the fronts inherit: a new one needs no other declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from calculators.settings import value_types
from calculators.settings.declaration import option
from servers.options.groups import GRPC, HTTP, LIMITS, PAGES

_LOCAL = ("127.0.0.1",)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontOptions:
    """The options of both fronts."""

    request_seconds: float = option(
        0.0,
        "cut off requests that take longer, with 504; clients may ask for less with `timeout` in "
        "the body or X-Request-Timeout; default {default}: never",
        flag="request_timeout",
        group=LIMITS,
        metavar="SECONDS",
        reads=value_types.seconds,
    )
    max_connections: int = option(
        4096,
        "of HTTP and of gRPC, each; more are refused; default {default}",
        group=LIMITS,
        metavar="N",
        reads=value_types.count,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions(FrontOptions):
    """The options of HTTP, besides its port."""

    hosts: tuple[str, ...] = option(
        _LOCAL,
        "addresses with commas between them, IPv6 too; default {default}: this machine only",
        flag="rest_bind_address",
        group=HTTP,
        metavar="HOSTS",
        reads=value_types.hosts,
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        "names besides localhost that clients may use for a server that only this machine "
        "reaches: those of a proxy in front of it",
        group=HTTP,
        metavar="HOSTS",
        reads=value_types.words,
    )
    allowed_origins: tuple[str, ...] = option(
        (),
        "web pages that may call the server, with commas: https://console.example; `*` is "
        "every page, and is only taken with API keys",
        group=PAGES,
        metavar="ORIGINS",
        reads=value_types.origins,
    )
    allowed_methods: tuple[str, ...] = option(
        (),
        "what they may use: GET,POST; default: what each path takes",
        group=PAGES,
        metavar="METHODS",
        reads=value_types.words,
    )
    allowed_headers: tuple[str, ...] = option(
        (),
        "headers they may send; default: those that clients of these APIs send",
        group=PAGES,
        metavar="HEADERS",
        reads=value_types.words,
    )
    allow_credentials: bool = option(
        False,
        "they may send cookies and certificates that the browser has; not with `*`",
        group=PAGES,
        metavar="BOOL",
        reads=value_types.switch,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcOptions(FrontOptions):
    """The options of gRPC, besides its port."""

    hosts: tuple[str, ...] = option(
        _LOCAL,
        "as --rest_bind_address; default {default}",
        flag="grpc_bind_address",
        group=GRPC,
        metavar="HOSTS",
        reads=value_types.hosts,
    )
    channel_arguments: Mapping[str, int | str] = option(
        MappingProxyType({}),
        "gRPC's own settings, NAME=VALUE with commas: grpc.max_concurrent_streams=100",
        flag="grpc_channel_arguments",
        group=GRPC,
        metavar="ARGUMENTS",
        reads=value_types.channel_arguments,
    )
    idle_seconds: float = option(
        3600.0,
        "end gRPC streams in which nobody sends for so long; default {default}; 0: never",
        flag="stream_idle_timeout",
        group=LIMITS,
        metavar="SECONDS",
        reads=value_types.seconds,
    )
