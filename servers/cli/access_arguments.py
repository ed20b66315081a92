"""Arguments of `graphrt serve` that say who may ask for what, and for how long.

Imports nothing that takes time, as `servers.cli.arguments`.
"""

from __future__ import annotations

import argparse

from servers.cli import argument_types


def add_access_arguments(command: argparse.ArgumentParser) -> None:
    """Keys, TLS, web pages, limits; what they mean together is checked in `servers.cli.access`."""
    _add_keys(command.add_argument_group("who may ask"))
    _add_tls(command.add_argument_group("TLS, of HTTP and of gRPC"))
    _add_pages(command.add_argument_group("web pages (CORS)"))
    _add_limits(command.add_argument_group("limits"))


def _add_keys(keys: argparse._ArgumentGroup) -> None:
    keys.add_argument(
        "--api_key_file",
        metavar="FILE",
        help="a key per line: requests over HTTP and gRPC need one of them, as `Authorization: "
        "Bearer KEY` or `x-api-key: KEY`; read again when it changes; default: $API_KEY, if set",
    )
    keys.add_argument(
        "--open_routes",
        metavar="ROUTES",
        type=argument_types.routes,
        default=(),
        help="paths, with commas, that need no key besides health: /metrics,/v3/models*",
    )
    keys.add_argument(
        "--allow_repository_control",
        metavar="BOOL",
        type=argument_types.switch,
        default=False,
        help="models may be loaded, unloaded and reloaded by everybody who can reach the server; "
        "without it only with a key, or where only this machine reaches it",
    )


def _add_tls(tls: argparse._ArgumentGroup) -> None:
    tls.add_argument(
        "--tls_certificate",
        "--ssl_certfile",
        metavar="FILE",
        help="the server's certificate and those of its chain, as PEM; read again when renewed",
    )
    tls.add_argument("--tls_key", "--ssl_keyfile", metavar="FILE", help="its private key, as PEM")
    tls.add_argument(
        "--tls_client_ca",
        metavar="FILE",
        help="clients must show a certificate that one of these has signed",
    )


def _add_pages(pages: argparse._ArgumentGroup) -> None:
    pages.add_argument(
        "--allowed_origins",
        metavar="ORIGINS",
        type=argument_types.origins,
        default=(),
        help="web pages that may call the server, with commas: https://console.example; `*` is "
        "every page, and is only taken with API keys",
    )
    pages.add_argument(
        "--allowed_methods",
        metavar="METHODS",
        type=argument_types.words,
        default=(),
        help="what they may use: GET,POST; default: what each path takes",
    )
    pages.add_argument(
        "--allowed_headers",
        metavar="HEADERS",
        type=argument_types.words,
        default=(),
        help="headers they may send; default: those that clients of these APIs send",
    )
    pages.add_argument(
        "--allow_credentials",
        metavar="BOOL",
        type=argument_types.switch,
        default=False,
        help="they may send cookies and certificates that the browser has; not with `*`",
    )


def _add_limits(limits: argparse._ArgumentGroup) -> None:
    limits.add_argument(
        "--request_timeout",
        metavar="SECONDS",
        type=argument_types.seconds,
        default=0.0,
        help="cut off requests that take longer, with 504; clients may ask for less with `timeout` "
        "in the body or X-Request-Timeout; default 0: never",
    )
    limits.add_argument(
        "--stream_idle_timeout",
        metavar="SECONDS",
        type=argument_types.seconds,
        default=3600.0,
        help="end gRPC streams in which nobody sends for so long; default 3600; 0: never",
    )
    limits.add_argument(
        "--max_connections",
        metavar="N",
        type=argument_types.count,
        default=4096,
        help="of HTTP and of gRPC, each; more are refused; default 4096",
    )
