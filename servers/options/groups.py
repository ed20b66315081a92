"""The headings of ``graphrt serve --help``, in their order."""

from __future__ import annotations

from typing import Final

from calculators.settings.declaration import Group
from calculators.settings.groups import MEDIA, RUNNING, TASK

SERVED: Final = Group("what is served, in other words")
MODEL: Final = Group(
    "a plain model",
    "When DIR holds folders of versions, as DIR/1/model.xml, or a model's file is named.\n"
    "--shape and --layout may be JSON objects, by the names of tensors. --target_device and\n"
    "--plugin_config are for this too.",
)
HTTP: Final = Group("HTTP")
GRPC: Final = Group("gRPC")
KEYS: Final = Group("who may ask")
TLS: Final = Group("TLS, of HTTP and of gRPC")
PAGES: Final = Group("web pages (CORS)")
LIMITS: Final = Group("limits")
TELEMETRY: Final = Group("log, traces and metrics")

#: Groups of families that are not here come last.
ORDER: Final = (
    SERVED,
    TASK,
    MODEL,
    HTTP,
    GRPC,
    KEYS,
    TLS,
    PAGES,
    LIMITS,
    MEDIA,
    RUNNING,
    TELEMETRY,
)
