"""Options of the page at ``/``: when it is served, and how much it may show and do."""

from __future__ import annotations

from dataclasses import dataclass

from calculators.kit.settings import value_types
from calculators.kit.settings.declaration import option
from servers.options.groups import PAGE


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
