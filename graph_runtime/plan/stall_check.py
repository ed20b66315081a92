"""Nodes that can wait without end, found in a plan before it runs.

MediaPipe runs such graphs: when no source is left the run ends, and queued packets are dropped
without an error. So these findings are warnings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from graph_runtime.authoring.calculator import Calculator
from graph_runtime.plan.plan import GraphWarning, NodePlan, ValidatedGraph

_SYNC_SET = (
    "give the loop a sync set of its own: input_stream_handler {{ input_stream_handler: "
    '"SyncSetInputStreamHandler" options {{ [mediapipe.SyncSetInputStreamHandlerOptions.ext] '
    '{{ sync_set {{ tag_index: "{0}" }} }} }} }}'
)
_IMMEDIATE = (
    "where the packets of the branches need not meet, give the node input_stream_handler "
    '{ input_stream_handler: "ImmediateInputStreamHandler" }'
)


def sync_set_hint(tag: str, index: int) -> str:
    """Return the text that puts an input into a sync set of its own."""
    return _SYNC_SET.format(f"{tag}:{index}")


def stall_warnings(plan: ValidatedGraph) -> Iterator[GraphWarning]:
    """Warn of loops that nothing can start, and of joins of which one branch may stay silent."""
    checked = _Check(plan)
    for node in plan.nodes:
        yield from checked.warnings_of(node)


def has_path(plan: ValidatedGraph, start: str, end: str, *, without: Collection[str] = ()) -> bool:
    """Return True if packets of the stream ``start`` can lead to packets of the stream ``end``.

    ``without``: names of nodes that may not be on the way.

    Streams that no input of the graph feeds come from sources and side packets, which may lead
    anywhere: they count as fed by ``start``.
    """
    reached = {start}
    waiting = [start]
    waiting += [name for node in plan.nodes if not node.inputs for name in node.outputs.names]
    reached.update(waiting)
    while waiting:
        for reader, _ in plan.consumers.get(waiting.pop(), ()):
            node = plan.nodes[reader]
            found = [name for name in node.outputs.names if name not in reached]
            if node.name in without:
                continue
            waiting += found
            reached.update(found)
    return end in reached


class _Check:
    def __init__(self, plan: ValidatedGraph) -> None:
        self._plan = plan
        self._loops = {
            node.node_id: {
                place: loop
                for place, each in enumerate(node.input_plans)
                if each.is_back_edge and (loop := self._loop(node, each.stream))
            }
            for node in plan.nodes
        }
        self._silent = self._silent_streams()
        self._choices = self._find_choices()

    def warnings_of(self, node: NodePlan) -> Iterator[GraphWarning]:
        groups = node.handler_class.sync_groups(len(node.input_plans), node.handler_settings)
        for group in groups or ():
            forward = [place for place in group if not node.input_plans[place].is_back_edge]
            for place in group:
                loop = self._loops[node.node_id].get(place)
                if loop and forward:
                    is_certain = all(_starts_silent(each) for each in loop)
                    yield self._loop_warning(node, place, forward, is_certain)
            makers = {self._plan.producers[node.input_plans[place].stream] for place in forward}
            silent = [p for p in forward if node.input_plans[p].stream in self._silent]
            if silent and len(makers) > 1:
                yield self._join_warning(node, silent[0], forward)

    def _loop_warning(
        self, node: NodePlan, place: int, forward: list[int], is_certain: bool
    ) -> GraphWarning:
        loop, other = node.input_plans[place].stream, node.input_plans[forward[0]].stream
        consequence = (
            "nothing can start this loop, and the node never runs"
            if is_certain
            else "unless a node of this loop sends something in open(), the node never runs"
        )
        return GraphWarning(
            f'waits for "{other}" together with "{loop}", which comes from its own output: '
            f"{consequence}",
            node.name,
            node.origin,
            sync_set_hint(*node.inputs.keys[place])
            + "; or feed the loop by a PreviousLoopbackCalculator",
            is_certain,
        )

    def _join_warning(self, node: NodePlan, place: int, forward: list[int]) -> GraphWarning:
        silent = node.input_plans[place].stream
        maker = self._plan.nodes[self._plan.producers[silent]].name
        others = ", ".join(
            f'"{node.input_plans[each].stream}"' for each in forward if each != place
        )
        if chooser := self._chooser(node, forward):
            return GraphWarning(
                f'joins {others} with "{silent}" by timestamp, but node "{chooser}" sends each '
                f"packet to one of these branches: the node waits for the others without end",
                node.name,
                node.origin,
                _join_hint(node, forward),
                is_certain=True,
            )
        return GraphWarning(
            f'joins {others} with "{silent}" by timestamp, but node "{maker}" may send nothing on '
            f'"{silent}" and not settle it: then the node waits without end, and what it holds is '
            f"lost",
            node.name,
            node.origin,
            _join_hint(node, forward),
        )

    def _chooser(self, node: NodePlan, places: list[int]) -> str:
        """The name of a node of which two outputs, and only they, lead to two of the inputs."""
        taken: dict[int, int] = {}
        for place in places:
            for maker, output in self._choices[node.input_plans[place].stream]:
                if taken.setdefault(maker, output) != output:
                    return self._plan.nodes[maker].name
        return ""

    def _find_choices(self) -> dict[str, frozenset[tuple[int, int]]]:
        """Per stream, the outputs of choosing nodes without whose packets it stays silent."""
        found = {name: frozenset[tuple[int, int]]() for name in self._plan.input_places}
        for node in self._plan.nodes:
            forward = [found[each.stream] for each in node.input_plans if not each.is_back_edge]
            common = frozenset.intersection(*forward) if forward else frozenset()
            for place, name in enumerate(node.outputs.names):
                is_choice = node.calculator_class.chooses_output
                found[name] = common | {(node.node_id, place)} if is_choice else common
        return found

    def _silent_streams(self) -> set[str]:
        """Streams that may stay silent without a bound, even after the graph's inputs have ended.

        They come from a loop, whose nodes wait for each other, or from nodes that such a stream
        feeds.
        """
        silent: set[str] = set()
        for node in self._plan.nodes:  # in order: forward inputs are judged before
            is_open = bool(self._loops[node.node_id]) or any(
                each.stream in silent for each in node.input_plans if not each.is_back_edge
            )
            if is_open and not _settles(node, silent):
                silent.update(node.outputs.names)
        return silent

    def _loop(self, node: NodePlan, back_edge: str) -> list[NodePlan]:
        """Return the nodes on all paths from ``node`` back to its input; empty if there is none."""
        plan = self._plan
        reached = self._reach(node.node_id, forward=True)
        end = plan.producers[back_edge]
        if end not in reached:
            return []
        both = reached & self._reach(end, forward=False)
        return [plan.nodes[each] for each in sorted(both)]

    def _reach(self, start: int, *, forward: bool) -> set[int]:
        plan = self._plan
        found, waiting = {start}, [start]
        while waiting:
            node = plan.nodes[waiting.pop()]
            if forward:
                near = {
                    reader
                    for name in node.outputs.names
                    for reader, place in plan.consumers.get(name, ())
                    if not plan.nodes[reader].input_plans[place].is_back_edge
                }
            else:
                near = {
                    plan.producers[each.stream]
                    for each in node.input_plans
                    if not each.is_back_edge and plan.producers[each.stream] < len(plan.nodes)
                }
            waiting += near - found
            found |= near
        return found


def _join_hint(node: NodePlan, places: list[int]) -> str:
    """Advice on joining these inputs. A type of packets may name the calculator: ``joined_by``."""
    kinds = [kind for place in places for kind in node.input_types[place].root().types]
    joins = {getattr(kind, "joined_by", "") for kind in kinds}
    return f"join them by a {joins.pop()}" if len(joins) == 1 and "" not in joins else _IMMEDIATE


def _settles(node: NodePlan, silent: set[str]) -> bool:
    """True if each call of a node settles its outputs, and it is called for every timestamp."""
    if node.calculator_class.settles_outputs:
        return True
    groups = node.handler_class.sync_groups(len(node.input_plans), node.handler_settings)
    return (
        node.timestamp_offset is not None
        and groups is not None
        and len(groups) == 1
        and not any(each.stream in silent for each in node.input_plans)
    )


def _starts_silent(node: NodePlan) -> bool:
    """Return True if a node certainly sends and settles nothing before its first input."""
    return node.calculator_class.open is Calculator.open and not node.is_source
