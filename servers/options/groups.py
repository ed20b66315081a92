"""The headings of ``graphrt serve --help``, in their order."""

from __future__ import annotations

from typing import Final

from calculators.kit.settings.declaration import Group
from calculators.kit.settings.groups import MEDIA, RUNNING, TASK

SERVED: Final = Group("what to serve, without CONFIG")
MODEL: Final = Group(
    "a plain model",
    "For a DIR with folders of versions, such as DIR/1/model.xml, or for a model's file. --shape\n"
    "and --layout may be JSON objects by the names of tensors. --target_device and\n"
    "--plugin_config apply too.",
)
HUB: Final = Group("a model of a hub")
EXPORT: Final = Group(
    "a model of safetensors",
    "It is exported to OpenVINO's form, once; the export is kept in the directory of models.\n"
    "Needs pip install 'graphrt[export]'.",
)
HTTP: Final = Group("HTTP")
GRPC: Final = Group("gRPC")
KEYS: Final = Group("API keys and rights")
TLS: Final = Group("TLS for HTTP and gRPC")
PAGE: Final = Group("the page at /")
PAGES: Final = Group("web pages of others (CORS)")
BATCHES: Final = Group("files and batches")
LIMITS: Final = Group("limits")
TELEMETRY: Final = Group("log, traces and metrics")

#: The order of the groups. Groups of families that are not listed come last.
ORDER: Final = (
    SERVED,
    HUB,
    EXPORT,
    TASK,
    MODEL,
    HTTP,
    GRPC,
    KEYS,
    TLS,
    PAGE,
    PAGES,
    BATCHES,
    LIMITS,
    MEDIA,
    RUNNING,
    TELEMETRY,
)

#: The groups that only a server with clients has a use for.
OF_CLIENTS: Final = frozenset({HTTP, GRPC, KEYS, TLS, PAGE, PAGES})
