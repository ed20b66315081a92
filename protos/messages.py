"""Message classes of the private pool by their names: ``messages.GateCalculatorOptions``.

Holds the messages of MediaPipe and OpenVINO Model Server (package ``mediapipe``), graphrt's own,
KServe's (``inference``) and gRPC's for health. A class is made when its name is first read, so
importing this module costs nothing. Type checkers read ``messages.pyi`` beside it, which ``python
-m protos.generate`` writes.
"""

from __future__ import annotations

from protos.pool import class_of, find_message

#: Packages whose messages are here; no two have a message of one name.
PACKAGES = ("mediapipe", "graphrt", "inference", "grpc.health.v1")


def __getattr__(name: str) -> object:
    """Return a message class, and keep it as an attribute."""
    if not name.startswith("_"):
        for package in PACKAGES:
            found = find_message(f"{package}.{name}")
            if found is not None:
                return globals().setdefault(name, class_of(found))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
