"""DAG pipelines of a config, as the graphs that they are.

OpenVINO Model Server runs pipelines by a scheduler of their own (``dag_scheduler.md``,
``demultiplexing.md``). Here each becomes the text of a graph: a session per model, an inference
node per node, and a pair of nodes where a pipeline takes tensors apart and gathers the results.
Pipelines with custom nodes, which are shared libraries, have no graph.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from calculators.kit.tasks.task import quoted
from graph_runtime.errors import did_you_mean
from servers.config.entries import CUSTOM_NODE, MODEL_NODE

#: The name by which nodes refer to the request; OpenVINO Model Server reserves the other too.
REQUEST: Final = "request"
_RESPONSE: Final = "response"

#: The most inferences of one node at a time, of the slices of one request.
_IN_FLIGHT: Final = 16


class PipelineError(ValueError):
    """A pipeline has no graph.

    Attributes:
        path: the place below the pipeline, such as ``nodes[0].inputs``; "" is the pipeline.
        hint: what would be right; None if the message says it.
    """

    def __init__(self, path: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.hint = hint


class PipelineGraph(NamedTuple):
    """A pipeline as a graph.

    Attributes:
        text: the graph's text.
        tensor_names: the clients' names of inputs and outputs, by stream, where they differ from
            the stream's, which has small letters, digits and underscores only.
    """

    text: str
    tensor_names: Mapping[str, str]


class _Source(NamedTuple):
    """An output of a node, or an input of the pipeline, by its alias."""

    node: str
    item: str


@dataclass(frozen=True, slots=True)
class _Node:
    """A checked node.

    Attributes:
        path: its place in the pipeline.
        version: of the model; 0 is the default one.
        inputs: the source of each input of the model.
        outputs: the model's output of each alias.
        count: the slices that its outputs are taken apart into, -1 for any; None for none.
        gathers: the node whose slices it gathers; "" for none.
    """

    name: str
    path: str
    model: str
    version: int
    inputs: Mapping[str, _Source]
    outputs: Mapping[str, str]
    count: int | None
    gathers: str


#: The nodes whose slices a tensor is part of, from the first on.
_Level = tuple[str, ...]


def graph_of_pipeline(config: Mapping[str, Any], models: Collection[str]) -> PipelineGraph:
    """Return the graph of a checked object of ``pipeline_config_list``.

    Args:
        models: the names of the models of the config.

    Raises:
        PipelineError: the pipeline has no graph: it has custom nodes, or something in it does not
            go together.
    """
    nodes = _nodes_of(config, models)
    outputs = _connections(config["outputs"], "outputs", config["inputs"], nodes)
    if not outputs:
        raise PipelineError("outputs", "a pipeline needs an output")
    order = _in_order(nodes, outputs)
    levels = _levels(config, order, outputs)
    return _Writer(config, order, levels, outputs).graph()


def _nodes_of(config: Mapping[str, Any], models: Collection[str]) -> dict[str, _Node]:
    """Return the nodes by name, each checked by itself and against the names of the others."""
    names: dict[str, Mapping[str, Any]] = {}
    for index, item in enumerate(config["nodes"]):
        path, name = f"nodes[{index}]", item["name"]
        if name in (REQUEST, _RESPONSE):
            raise PipelineError(f"{path}.name", f'"{name}" is reserved; name the node otherwise')
        if name in names:
            raise PipelineError(f"{path}.name", f"two nodes have the name {quoted(name)}")
        if item["type"] == CUSTOM_NODE:
            raise PipelineError(
                f"{path}.type",
                f"the node {quoted(name)} is a custom node: libraries of custom nodes, which are "
                f"made for OpenVINO Model Server's process, are not loaded",
                "write it as a Python node, a PythonExecutorCalculator, in a graph of "
                "mediapipe_config_list",
            )
        names[name] = item
    made: dict[str, _Node] = {}
    for index, (name, item) in enumerate(names.items()):
        path = f"nodes[{index}]"
        model = item.get("model_name", "")
        if model not in models:
            raise PipelineError(
                f"{path}.model_name" if model else path,
                f"the model {quoted(model)} is not in model_config_list."
                f"{did_you_mean(model, models)}"
                if model
                else f'the key "model_name" is missing; the type "{MODEL_NODE}" needs it',
            )
        aliases: dict[str, str] = {}
        for place, output in enumerate(item["outputs"]):
            if output["alias"] in aliases:
                raise PipelineError(
                    f"{path}.outputs[{place}].alias",
                    f"two outputs have the alias {quoted(output['alias'])}",
                )
            aliases[output["alias"]] = output["data_item"]
        count = item.get("demultiply_count")
        made[name] = _Node(
            name,
            path,
            model,
            item.get("version", 0),
            {},
            aliases,
            -1 if count == 0 else count,  # as OpenVINO Model Server takes it
            item.get("gather_from_node", ""),
        )
    for node in made.values():
        path = f"{node.path}.inputs"
        inputs = _connections(names[node.name]["inputs"], path, config["inputs"], made)
        if not inputs:
            raise PipelineError(path, f"the node {quoted(node.name)} has no inputs")
        made[node.name] = replace(node, inputs=inputs)
    return made


def _connections(
    listed: Sequence[Mapping[str, Any]],
    path: str,
    inputs: Sequence[str],
    nodes: Mapping[str, _Node],
) -> dict[str, _Source]:
    """Return the source of each name of a list of connections."""
    found: dict[str, _Source] = {}
    every = [
        (f"{path}[{index}].{name}", name, item)
        for index, each in enumerate(listed)
        for name, item in each.items()
    ]
    for where, name, item in every:
        source = _Source(item["node_name"], item["data_item"])
        if name in found:
            raise PipelineError(where, f"{quoted(name)} has two sources")
        if source.node == REQUEST:
            items: Collection[str] = inputs
            owner = "the pipeline has no input"
        elif source.node in nodes:
            items = nodes[source.node].outputs
            owner = f"the node {quoted(source.node)} has no output"
        else:
            near = did_you_mean(source.node, [REQUEST, *nodes])
            raise PipelineError(where, f"there is no node {quoted(source.node)}.{near}")
        if source.item not in items:
            near = did_you_mean(source.item, items)
            raise PipelineError(where, f"{owner} {quoted(source.item)}.{near}")
        found[name] = source
    return found


def _in_order(nodes: Mapping[str, _Node], outputs: Mapping[str, _Source]) -> list[_Node]:
    """Return the nodes, each after those that it reads."""
    before = {
        node.name: {source.node for source in node.inputs.values()} - {REQUEST}
        for node in nodes.values()
    }
    order: list[_Node] = []
    done: set[str] = set()
    while len(done) < len(nodes):
        ready = [node for name, node in nodes.items() if name not in done and before[name] <= done]
        if not ready:
            cycle = ", ".join(quoted(name) for name in nodes if name not in done)
            raise PipelineError("nodes", f"the nodes {cycle} wait for each other: a cycle")
        order += ready
        done.update(node.name for node in ready)
    read = {source.node for source in outputs.values()}
    for node in reversed(order):
        if node.name not in read:
            raise PipelineError(node.path, f"nothing reads the node {quoted(node.name)}")
        read.update(before[node.name])
    return order


class _Levels(NamedTuple):
    """The levels of the nodes' inputs after gathering, of what they send, and of the outputs."""

    inside: Mapping[str, _Level]
    sent: Mapping[str, _Level]
    outputs: _Level


def _levels(
    config: Mapping[str, Any], order: Iterable[_Node], outputs: Mapping[str, _Source]
) -> _Levels:
    counts = {node.name: node.count for node in order}
    counts[REQUEST] = config.get("demultiply_count")
    sent: dict[str, _Level] = {REQUEST: () if counts[REQUEST] is None else (REQUEST,)}
    inside: dict[str, _Level] = {}
    for node in order:
        level = _level_of(node.inputs, sent, f"{node.path}.inputs")
        if node.gathers:
            path = f"{node.path}.gather_from_node"
            if counts.get(node.gathers) is None:
                raise PipelineError(path, f"no node {quoted(node.gathers)} has a demultiply_count")
            if level[-1:] != (node.gathers,):
                last = f"slices of {quoted(level[-1])} come first" if level else "there are none"
                raise PipelineError(
                    path,
                    f"the inputs are no slices of {quoted(node.gathers)} that can be gathered "
                    f"here: {last}",
                    "slices are gathered in the reverse order of their making",
                )
            level = level[:-1]
        inside[node.name] = level
        sent[node.name] = level if node.count is None else (*level, node.name)
    return _Levels(inside, sent, _level_of(outputs, sent, "outputs"))


def _level_of(connections: Mapping[str, _Source], sent: Mapping[str, _Level], path: str) -> _Level:
    """Return the one level of some sources."""
    levels = {sent[source.node]: source for source in connections.values()}
    if len(levels) > 1:
        texts = [
            f"{quoted(source.item)} of {quoted(source.node)} is in slices of "
            f"{', '.join(map(quoted, level)) or 'nothing'}"
            for level, source in levels.items()
        ]
        raise PipelineError(
            path,
            f"they are taken apart differently: {'; '.join(texts)}",
            "gather_from_node puts slices together before a node",
        )
    return next(iter(levels))


class _Writer:
    """Writes the text of a graph."""

    def __init__(
        self,
        config: Mapping[str, Any],
        order: Sequence[_Node],
        levels: _Levels,
        outputs: Mapping[str, _Source],
    ) -> None:
        self._order = order
        self._levels = levels
        self._outputs = outputs
        self._taken: set[str] = set()
        self._tensor_names: dict[str, str] = {}
        self._nodes: list[str] = []
        #: The stream of each source, in slices if its node takes it apart.
        self._streams: dict[_Source, str] = {}
        #: The stream of the ends of the slices of a node.
        self._ends: dict[str, str] = {}
        self._sessions: dict[tuple[str, int], str] = {}
        counts = {node.name: node.count for node in order}
        self._counts = {**counts, REQUEST: config.get("demultiply_count")}
        if self._counts[REQUEST] == 0:
            self._counts[REQUEST] = -1
        read = {source for node in order for source in node.inputs.values()}
        #: The sources that anything reads.
        self._read = read | set(outputs.values())
        self._inputs = {
            name: self._named(name)
            for name in config["inputs"]
            if _Source(REQUEST, name) in self._read
        }
        self._results = {name: self._named(name) for name in outputs}

    def graph(self) -> PipelineGraph:
        names = {_Source(REQUEST, name): stream for name, stream in self._inputs.items()}
        self._send(REQUEST, names)
        # An output that is no slice is the stream of its node, by the name of the output.
        own: dict[_Source, str] = {}
        if not self._levels.outputs:
            for name, source in self._outputs.items():
                if source.node != REQUEST and self._counts[source.node] is None:
                    own.setdefault(source, self._results[name])
        for node in self._order:
            self._write(node, own)
        self._write_outputs(own)
        inputs = _tagged(list(self._inputs.values()))
        results = _tagged(list(self._results.values()))
        head = [f'input_stream: "{each}"' for each in inputs]
        head += [f'output_stream: "{each}"' for each in results]
        return PipelineGraph("\n".join([*head, *self._nodes, ""]), self._tensor_names)

    def _named(self, name: str) -> str:
        """Return a stream for an input or output of clients."""
        stream = self._stream(name)
        if stream != name:
            self._tensor_names[stream] = name
        return stream

    def _stream(self, *words: str) -> str:
        """Return a new name that a stream may have, made of some words."""
        name = re.sub(r"[^a-z0-9_]", "_", "_".join(words).lower())
        if not re.match(r"[a-z_]", name):
            name = f"_{name}"
        number, stream = 1, name
        while stream in self._taken:
            number += 1
            stream = f"{name}_{number}"
        self._taken.add(stream)
        return stream

    def _send(self, node: str, streams: Mapping[_Source, str]) -> None:
        """Let others read the outputs of a node, in slices if it takes them apart."""
        count = self._counts[node]
        if count is None:
            self._streams.update(streams)
            return
        self._ends[node] = self._stream(node, "end")
        slices = {source: self._stream(stream, "slice") for source, stream in streams.items()}
        self._streams.update(slices)
        self._add(
            "DemultiplyTensorsCalculator",
            [f"TENSOR:{index}:{each}" for index, each in enumerate(streams.values())],
            [
                *(f"TENSOR:{index}:{each}" for index, each in enumerate(slices.values())),
                f"BATCH_END:{self._ends[node]}",
            ],
            ("graphrt.DemultiplyTensorsOptions", [f"demultiply_count: {count}"]),
        )

    def _gathered(self, streams: Sequence[str], node: str, names: Sequence[str]) -> None:
        """Gather slices of a node into streams of these names."""
        self._add(
            "GatherTensorsCalculator",
            [
                *(f"TENSOR:{index}:{each}" for index, each in enumerate(streams)),
                f"BATCH_END:{self._ends[node]}",
            ],
            [f"TENSOR:{index}:{each}" for index, each in enumerate(names)],
        )

    def _write(self, node: _Node, own: Mapping[_Source, str]) -> None:
        """Write a node: gathering before it, inference, slices after it."""
        streams = [self._streams[source] for source in node.inputs.values()]
        if node.gathers:
            distinct = list(dict.fromkeys(streams))
            gathered = {each: self._stream(each, "gathered") for each in distinct}
            self._gathered(distinct, node.gathers, list(gathered.values()))
            streams = [gathered[each] for each in streams]
        made = {}
        tensors = []
        for alias, tensor in node.outputs.items():
            source = _Source(node.name, alias)
            if source in self._read:
                made[source] = own.get(source) or self._stream(node.name, alias)
                tensors.append(tensor)
        inputs, outputs = _tagged(streams), _tagged(list(made.values()))
        names = [
            *_names("tag_to_input_tensor_names", inputs, node.inputs),
            *_names("tag_to_output_tensor_names", outputs, tensors),
        ]
        options = ("mediapipe.OpenVINOInferenceCalculatorOptions", names)
        session = f'  input_side_packet: "SESSION:{self._session(node)}"'
        # Slices of one request are computed side by side; the runtime keeps their order.
        level = self._levels.inside[node.name]
        beside = [f"  max_in_flight: {_IN_FLIGHT}"] if level else []
        lines = [session, *beside]
        self._add("OpenVINOInferenceCalculator", inputs, outputs, options, node.name, lines)
        self._send(node.name, made)

    def _session(self, node: _Node) -> str:
        """Return the side packet of a model's session; write its node when it is first needed."""
        key = node.model, node.version
        found = self._sessions.get(key)
        if found is None:
            found = self._sessions[key] = self._stream(node.model, "session")
            fields = [f"servable_name: {quoted(node.model)}"]
            if node.version:
                fields.append(f'servable_version: "{node.version}"')
            self._add(
                "OpenVINOModelServerSessionCalculator",
                [],
                [],
                ("mediapipe.OpenVINOModelServerSessionCalculatorOptions", fields),
                lines=[f'  output_side_packet: "SESSION:{found}"'],
            )
        return found

    def _write_outputs(self, own: Mapping[_Source, str]) -> None:
        """Gather what is left in slices, and give the outputs their names."""
        streams = {name: self._streams[source] for name, source in self._outputs.items()}
        level = self._levels.outputs
        for depth, node in enumerate(reversed(level), 1):
            distinct = list(dict.fromkeys(streams.values()))
            names = {}
            for each in distinct:
                first = next(name for name, stream in streams.items() if stream == each)
                is_last = depth == len(level)
                names[each] = self._results[first] if is_last else self._stream(each, "gathered")
            self._gathered(distinct, node, list(names.values()))
            streams = {name: names[stream] for name, stream in streams.items()}
        for name, stream in streams.items():
            if stream != self._results[name]:
                self._add("PassThroughCalculator", [stream], [self._results[name]])

    def _add(
        self,
        calculator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        options: tuple[str, Sequence[str]] = ("", ()),
        name: str = "",
        lines: Sequence[str] = (),
    ) -> None:
        """Write a node; ``options`` are the name of their message, and its fields."""
        text = ["node {"]
        if name:
            text.append(f"  name: {quoted(name)}")
        text.append(f'  calculator: "{calculator}"')
        text += [f'  input_stream: "{each}"' for each in inputs]
        text += [f'  output_stream: "{each}"' for each in outputs]
        text += lines
        kind, fields = options
        if fields:
            text += [
                "  node_options {",
                f"    [type.googleapis.com/{kind}] {{",
                *(f"      {each}" for each in fields),
                "    }",
                "  }",
            ]
        self._nodes.append("\n".join([*text, "}"]))


def _tagged(streams: Sequence[str]) -> list[str]:
    """Return entries of tensors for some streams, each with a tag of its own."""
    if len(streams) == 1:
        return [f"OVTENSOR:{streams[0]}"]
    return [f"OVTENSOR{number}:{stream}" for number, stream in enumerate(streams, 1)]


def _names(field: str, entries: Sequence[str], names: Iterable[str]) -> list[str]:
    return [
        f'{field} {{ key: "{entry.partition(":")[0]}" value: {quoted(name)} }}'
        for entry, name in zip(entries, names, strict=True)
    ]
