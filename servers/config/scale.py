"""The key ``scale``: number of replicas of a graph or model on a cluster, and their resources.

The names are Ray Serve's. On one machine, without ``--on``, the key has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from servers.config.checks import Check, Integer, MapOf, Number, ObjectOf, Report, Schema, Word
from servers.config.json_text import member

#: Replicas of one graph; Ray Serve is not made for more.
_MOST_REPLICAS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Scale:
    """The replicas of one graph or model.

    Attributes:
        min_replicas: the least; 0: none while there are no requests.
        max_replicas: the most.
        initial_replicas: the number to start with; None: ``min_replicas``, and at least 1.
        target_ongoing_requests: the requests per replica that the number of replicas follows.
        max_ongoing_requests: the most requests that one replica has at a time; others wait.
        max_queued_requests: the most requests that wait; more get 429.
        upscale_delay_s, downscale_delay_s: how long the load has to ask for more replicas, or for
            fewer, until there are.
        num_cpus, num_gpus: what a replica reserves on its node.
        memory: bytes that a replica reserves on its node; 0: none.
        resources: amounts of the cluster's own resources that it reserves, by name.
        nodes: the replicas of nodes that have their own, by the names of the nodes; of a graph.
    """

    min_replicas: int = 1
    max_replicas: int = 1
    initial_replicas: int | None = None
    target_ongoing_requests: float = 16.0
    max_ongoing_requests: int = 256
    max_queued_requests: int = 1024
    upscale_delay_s: float = 2.0
    downscale_delay_s: float = 60.0
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    nodes: Mapping[str, Scale] = field(default_factory=dict)

    @property
    def first_replicas(self) -> int:
        """The number of replicas to start with: one at least, so that loading is tried."""
        first = self.min_replicas if self.initial_replicas is None else self.initial_replicas
        return max(first, 1)

    @property
    def demands(self) -> dict[str, float]:
        """The amounts that one replica needs of a node, by Ray's names of resources."""
        named = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": float(self.memory)}
        return {name: amount for name, amount in (named | dict(self.resources)).items() if amount}


_COUNT: Final = Integer(1, _MOST_REPLICAS)
_KEYS: Final[dict[str, Check]] = {
    "min_replicas": Integer(0, _MOST_REPLICAS),
    "max_replicas": _COUNT,
    "initial_replicas": _COUNT,
    "target_ongoing_requests": Number(0.1),
    "max_ongoing_requests": Integer(1),
    "max_queued_requests": Integer(0),
    "upscale_delay_s": Number(0),
    "downscale_delay_s": Number(0),
    "num_cpus": Number(0),
    "num_gpus": Number(0),
    "memory": Integer(0),
    "resources": MapOf(Number(0)),
}


#: A node's replicas: its own. The word leaves room for other places.
_PLACE: Final = "place"
_NODE_KEYS: Final[dict[str, Check]] = {_PLACE: Word(("own",)), **_KEYS}


@dataclass(frozen=True, slots=True)
class ScaleCheck:
    """Objects of the key ``scale``.

    Attributes:
        fields: the keys that it may have.
        required: those that it must have.
    """

    fields: Mapping[str, Check]
    required: tuple[str, ...] = ()

    def check(self, value: Any, path: str, report: Report) -> None:
        errors: list[str] = []

        def noted(where: str, message: str, hint: str | None) -> None:
            errors.append(where)
            report(where, message, hint)

        ObjectOf(self.fields, self.required).check(value, path, noted)
        if errors:
            return
        scale = scale_of({"scale": value})
        if scale.min_replicas > scale.max_replicas:
            report(
                member(path, "min_replicas"),
                f"{scale.min_replicas} is more than max_replicas, which is {scale.max_replicas}",
                None,
            )
        elif scale.first_replicas > scale.max_replicas:
            report(
                member(path, "initial_replicas"),
                f"{scale.first_replicas} is more than max_replicas, which is {scale.max_replicas}",
                None,
            )

    def json_schema(self) -> Schema:
        return ObjectOf(self.fields, self.required).json_schema()


#: The key ``scale`` of a plain model, and that of a graph.
MODEL_SCALE: Final = ScaleCheck(_KEYS)
GRAPH_SCALE: Final = ScaleCheck(
    {**_KEYS, "nodes": MapOf(ScaleCheck(_NODE_KEYS, required=(_PLACE,)))}
)


def scale_of(config: Mapping[str, Any]) -> Scale:
    """Return the scale of a checked config object.

    A number that is not given follows the other: 2 at least means 2 at most. A plain model may have
    numbers under the key instead, by which OpenVINO Model Server divides its inputs.
    """
    value = config.get("scale")
    given = dict(value) if isinstance(value, dict) else {}
    given.pop(_PLACE, None)
    given["nodes"] = {
        name: scale_of({"scale": each}) for name, each in given.get("nodes", {}).items()
    }
    given.setdefault(
        "max_replicas", max(given.get("min_replicas", 1), given.get("initial_replicas", 1), 1)
    )
    return Scale(**given)
