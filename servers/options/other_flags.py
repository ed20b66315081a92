"""Flags of other servers: accepted without effect, refused with a reason, or named otherwise here.

Together with the declared options they are the whole command line of OpenVINO Model Server
(``cli_parser.cpp`` of its releases 2025.0 to 2026.2).
"""

from __future__ import annotations

from typing import Final

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
    "cpu_extension": (False, "libraries of custom operations are not loaded yet"),
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
