"""Options of the fronts. The settings of the fronts inherit these classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from calculators.kit.requests.unknown_members import UnknownMembers
from calculators.kit.settings import value_types
from calculators.kit.settings.declaration import option
from servers.options.groups import GRPC, HTTP, LIMITS, PAGES

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
