"""The layout of a graph: places of nodes, frames of subgraphs and lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from servers.drawing.description import DescribedNode, GraphDescription
from servers.drawing.diagram import Box, Diagram, Edge, Socket, make_diagram
from servers.drawing.drawing import Direction, DrawnNode, DrawnPort, Frame, GraphDrawing, Side, Wire
from servers.drawing.folding import lay_out_folded
from servers.drawing.layers import assign_layers, forward_edges
from servers.drawing.level import Cell, CellPlaces, Level, Net, NetEnd, Point
from servers.drawing.node_box import (
    FOOT,
    HEAD,
    SUBTITLE_SIZE,
    NodeBox,
    measure,
    port_label,
    text_width,
    title_width,
)
from servers.drawing.sheet import lay_out_level, straightened

MARGIN = 24.0
#: The height of a frame's title, and from its edges to what is in it.
FRAME_TITLE = 34.0
_FRAME_PADDING = 18.0
#: The weight of a side packet's straight line beside a stream's.
_SIDE_WEIGHT = 0.4
#: From this number of nodes on, a page shows a small map of the drawing.
MINIMAP_FROM = 60

Path = tuple[str, ...]
#: A box and the place of one of its outputs.
Producer = tuple[str, int]


# Laid out here: elkjs is the best of the others, has 353 kB and takes 1.1 s for 200 nodes (decision
# 0049).
def draw(
    graph: GraphDescription,
    title: str,
    *,
    direction: Direction = "right",
    has_feet: bool = True,
) -> GraphDrawing:
    """Place a whole graph.

    Args:
        graph: nodes and streams; its open subgraphs become frames.
        title: the name of the drawing.
        direction: of the streams: "right", in bands below one another if one band would be too
            long to be read, or "down" for narrow windows.
        has_feet: nodes have room for figures below their ports.
    """
    diagram = make_diagram(graph, title)
    return _GraphLayout(graph, diagram, direction, has_feet=has_feet).drawing()


@dataclass
class _FrameGroup:
    """A subgraph, or the whole graph, with its contents placed.

    Attributes:
        contents: boxes and paths of open subgraphs, in the order of the placement's cells.
        inlets, outlets: producers of the nets that cross its frame, in the order of the ports.
        origin: where the placement begins in the frame.
        ends: net and target in the placement by producer and target: a box's input, an open
            subgraph, or None for the way out.
        backs: nets and targets that close a loop.
    """

    path: Path
    contents: list[Box | Path]
    placement: CellPlaces
    inlets: list[Producer]
    outlets: list[Producer]
    origin: Point
    size: Point
    ends: dict[tuple[Producer, tuple[str, int] | Path | None], tuple[int, int]]
    backs: set[tuple[int, int]]

    def cell(self) -> Cell:
        """Return the subgraph as a cell of the level around it."""
        first = len(self.contents)
        across = [self.origin[1] + y for _, y in self.placement.starts[first:]]
        count = len(self.inlets)
        return Cell(*self.size, tuple(across[:count]), tuple(across[count:]))


class _GraphLayout:
    def __init__(
        self, graph: GraphDescription, diagram: Diagram, direction: Direction, *, has_feet: bool
    ) -> None:
        self._graph = graph
        self._diagram = diagram
        self._direction = direction
        self._has_feet = has_feet
        self._boxes = {box.key: _named(box) for box in diagram.boxes}
        self._measured = {
            key: measure(box, direction, has_foot=has_feet) for key, box in self._boxes.items()
        }
        self._groups: dict[Path, _FrameGroup] = {}
        self._nodes = {f"node:{place}": node for place, node in enumerate(graph.nodes)}
        self._corners: dict[str, Point] = {}
        self._origins: dict[Path, Point] = {}
        self._frames: list[Frame] = []
        self._junctions: list[Point] = []
        whole = self._lay_out(())
        self._put(whole, (MARGIN, MARGIN))
        self._size = whole.size

    def drawing(self) -> GraphDrawing:
        connected = {
            (key, place, is_source)
            for edge in self._diagram.edges
            for key, place, is_source in (
                (edge.source, edge.source_place, True),
                (edge.target, edge.target_place, False),
            )
        }
        width, height = self._turned(self._size)
        ids = {key: self._id(box) for key, box in self._boxes.items()}
        return GraphDrawing(
            title=self._diagram.title,
            direction=self._direction,
            width=_rounded(width + 2 * MARGIN),
            height=_rounded(height + 2 * MARGIN),
            head=HEAD,
            foot=FOOT if self._has_feet else 0.0,
            nodes=tuple(
                self._drawn(each, ids[each.box.key], connected) for each in self._measured.values()
            ),
            wires=tuple(self._wire(edge, ids) for edge in self._diagram.edges),
            frames=tuple(self._frames),
            junctions=tuple(_point(self._turned(each)) for each in self._junctions),
            closed=tuple(
                (*node.group, node.name) for node in self._graph.nodes if node.kind == "subgraph"
            ),
            has_minimap=len(self._graph.nodes) >= MINIMAP_FROM,
        )

    def _turned(self, point: Point) -> Point:
        """Return a point (along, across) as (x, y), or the other way round."""
        return point if self._direction == "right" else (point[1], point[0])

    # Levels ---------------------------------------------------------------------------------------

    def _lay_out(self, path: Path) -> _FrameGroup:
        contents: list[Box | Path] = [box for box in self._boxes.values() if box.group == path]
        contents += [
            each
            for each in self._diagram.groups
            if each[:-1] == path and len(each) == len(path) + 1
        ]
        cells = [
            self._measured[each.key].cell(self._direction)
            if isinstance(each, Box)
            else self._lay_out(each).cell()
            for each in contents
        ]
        depth = len(path)
        ins: list[Edge] = []
        outs: list[Edge] = []
        for edge in self._diagram.edges:
            starts, ends = (
                self._group(each)[:depth] == path for each in (edge.source, edge.target)
            )
            if starts != ends:
                (outs if starts else ins).append(edge)
        inlets, outlets = _producers(ins), _producers(outs)
        first = len(contents)
        cells += [Cell(0.0, 0.0, (), (0.0,), "first") for _ in inlets]
        cells += [Cell(0.0, 0.0, (0.0,), (), "last") for _ in outlets]
        nets, targets = self._nets(path, contents, first, inlets, outlets)
        level = Level(tuple(cells), tuple(nets))
        edges, backs = forward_edges(level)
        layers = assign_layers(level, edges)
        is_foldable = not path and self._direction == "right"
        placement = (lay_out_folded if is_foldable else lay_out_level)(level, layers)
        origin, size = self._room(path, placement, bool(inlets), bool(outlets))
        group = _FrameGroup(
            path, contents, placement, inlets, outlets, origin, size, targets, backs
        )
        self._groups[path] = group
        return group

    def _room(
        self, path: Path, placement: CellPlaces, has_inlets: bool, has_outlets: bool
    ) -> tuple[Point, Point]:
        """Return where the contents of a group begin in it, and its size: along, across."""
        length, breadth = placement.length, placement.breadth
        if not path:
            return (0.0, 0.0), (length, breadth)
        padding = _FRAME_PADDING
        before = 0.0 if has_inlets else padding
        behind = 0.0 if has_outlets else padding
        title = title_width(path[-1]) + 46
        kind = self._diagram.groups[path]
        title += 0 if kind == path[-1] else text_width(kind, SUBTITLE_SIZE) + 8
        title = float(round(title))
        if self._direction == "right":
            size = (before + length + behind, FRAME_TITLE + breadth + padding)
            return (before, FRAME_TITLE), (max(size[0], title), size[1])
        before += FRAME_TITLE
        return (before, padding), (before + length + behind, max(breadth + 2 * padding, title))

    def _group(self, key: str) -> Path:
        return self._boxes[key].group

    def _nets(
        self,
        path: Path,
        contents: list[Box | Path],
        first: int,
        inlets: list[Producer],
        outlets: list[Producer],
    ) -> tuple[list[Net], dict[tuple[Producer, tuple[str, int] | Path | None], tuple[int, int]]]:
        depth = len(path)
        cell_of = {
            each.key if isinstance(each, Box) else each: place
            for place, each in enumerate(contents)
        }
        sources: dict[Producer, NetEnd] = {}
        targets: dict[Producer, dict[tuple[str, int] | Path | None, NetEnd]] = {}
        for edge in self._diagram.edges:
            producer = (edge.source, edge.source_place)
            source_group, target_group = self._group(edge.source), self._group(edge.target)
            source_child, target_child = source_group[: depth + 1], target_group[: depth + 1]
            is_from_inside = source_group[:depth] == path
            is_to_inside = target_group[:depth] == path
            if source_child == target_child and len(source_child) > depth and is_from_inside:
                continue  # inside an open subgraph
            if is_from_inside and source_group == path:
                source = NetEnd(cell_of[edge.source], edge.source_place)
            elif is_from_inside:
                outlet = self._groups[source_child].outlets.index(producer)
                source = NetEnd(cell_of[source_child], outlet)
            elif producer in inlets:
                source = NetEnd(first + inlets.index(producer), 0)
            else:
                continue
            key: tuple[str, int] | Path | None
            if is_to_inside and target_group == path:
                key = (edge.target, edge.target_place)
                target = NetEnd(cell_of[edge.target], edge.target_place, edge.is_back_edge)
            elif is_to_inside:
                key = target_child
                inlet = self._groups[target_child].inlets.index(producer)
                target = NetEnd(cell_of[target_child], inlet, edge.is_back_edge)
            elif producer in outlets:
                key = None
                target = NetEnd(first + len(inlets) + outlets.index(producer), 0)
            else:
                continue
            if source.cell >= first or target.cell >= first:
                target = NetEnd(target.cell, target.port)
            sources[producer] = source
            known = targets.setdefault(producer, {})
            if key not in known or known[key].is_back:
                known[key] = target
        nets = [
            Net(sources[each], tuple(found.values()), weight=self._weight(each))
            for each, found in targets.items()
        ]
        ends = {
            (producer, key): (net, number)
            for net, (producer, found) in enumerate(targets.items())
            for number, key in enumerate(found)
        }
        return nets, ends

    def _weight(self, producer: Producer) -> float:
        socket = self._boxes[producer[0]].bottoms[producer[1]]
        return _SIDE_WEIGHT if socket.is_side_packet else 1.0

    # Places ---------------------------------------------------------------------------------------

    def _put(self, group: _FrameGroup, corner: Point) -> None:
        """Place the contents of a group; ``corner`` is the beginning of its frame."""
        origin = (corner[0] + group.origin[0], corner[1] + group.origin[1])
        self._origins[group.path] = origin
        self._junctions += [(x + origin[0], y + origin[1]) for x, y in group.placement.junctions]
        placed = zip(group.contents, group.placement.starts, group.placement.cells, strict=False)
        for each, (along, across), cell in placed:
            at = (origin[0] + along, origin[1] + across)
            if isinstance(each, Box):
                self._corners[each.key] = at
                self._measured[each.key] = replace(
                    self._measured[each.key], inputs=cell.inputs, outputs=cell.outputs
                )
                continue
            inner = self._groups[each]
            self._frames.append(self._frame(inner, at))
            self._put(inner, at)

    def _frame(self, group: _FrameGroup, at: Point) -> Frame:
        x, y = self._turned(at)
        width, height = self._turned(group.size)
        kind = self._diagram.groups[group.path]
        name = group.path[-1]
        return Frame(
            group.path,
            name,
            "" if kind == name else kind,
            tuple(
                node.full_name
                for node in self._graph.nodes
                if node.group[: len(group.path)] == group.path
            ),
            *map(_rounded, (x, y, width, height)),
        )

    def _wire(self, edge: Edge, ids: Mapping[str, str]) -> Wire:
        source_port = self._boxes[edge.source].bottoms[edge.source_place]
        target = ids[edge.target]
        place = edge.target_place
        points = [_point(self._turned(each)) for each in self._points(edge)]
        return Wire(
            id=f"{ids[edge.source]}.{edge.source_place}>{target}.{place}",
            stream=edge.name,
            type=edge.type or source_port.type,
            source=ids[edge.source],
            source_port=edge.source_place,
            target=target,
            target_port=place,
            is_side_packet=edge.is_side_packet,
            is_back_edge=edge.is_back_edge or self._closes_loop(edge),
            is_loop=edge.source == edge.target,
            points=tuple(points),
        )

    def _points(self, edge: Edge) -> list[Point]:
        """Return the line of an edge."""
        points = [
            (x + self._origins[path][0], y + self._origins[path][1])
            for path, end in self._parts(edge)
            for x, y in self._groups[path].placement.paths[end]
        ]
        return straightened(points)

    def _closes_loop(self, edge: Edge) -> bool:
        return any(end in self._groups[path].backs for path, end in self._parts(edge))

    def _parts(self, edge: Edge) -> Iterator[tuple[Path, tuple[int, int]]]:
        """Yield the parts of an edge: up through the frames around its source, and down again.

        Each is a group, and the net and target in its placement.
        """
        producer = (edge.source, edge.source_place)
        source, target = self._group(edge.source), self._group(edge.target)
        common = 0
        while common < min(len(source), len(target)) and source[common] == target[common]:
            common += 1
        for depth in range(len(source), common, -1):
            yield source[:depth], self._groups[source[:depth]].ends[producer, None]
        for depth in range(common, len(target)):
            inner = target[: depth + 1]
            yield target[:depth], self._groups[target[:depth]].ends[producer, inner]
        yield target, self._groups[target].ends[producer, (edge.target, edge.target_place)]

    # Nodes ----------------------------------------------------------------------------------------

    def _id(self, box: Box) -> str:
        node = self._nodes.get(box.key)
        return box.key if node is None else node.full_name

    def _drawn(
        self, measured: NodeBox, name: str, connected: set[tuple[str, int, bool]]
    ) -> DrawnNode:
        box = measured.box
        x, y = self._turned(self._corners[box.key])
        is_right = self._direction == "right"
        ports: list[tuple[DrawnPort, ...]] = []
        for sockets, places, is_output in (
            (box.tops, measured.inputs, False),
            (box.bottoms, measured.outputs, True),
        ):
            side: Side
            if is_right:
                side = "right" if is_output else "left"
                spots = [(x + measured.width * is_output, y + at) for at in places]
            else:
                side = "bottom" if is_output else "top"
                spots = [(x + at, y + measured.height * is_output) for at in places]
            ports.append(
                tuple(
                    _port(socket, side, spot, (box.key, place, is_output) in connected)
                    for place, (socket, spot) in enumerate(zip(sockets, spots, strict=True))
                )
            )
        node = self._nodes.get(box.key)
        size = (measured.width, measured.height)
        return _drawn_node(box, node, name, (ports[0], ports[1]), (x, y), size)


def _named(box: Box) -> Box:
    """Return a box with its calculator as `DrawnNode.subtitle` has it."""
    if box.family == "io" or box.kind == "side_input":
        return box
    title = box.title
    kind = box.subtitle.rpartition(".")[2].removesuffix("Calculator") or box.subtitle
    if not kind:
        title = title.rpartition(".")[2].removesuffix("Calculator") or title
    return replace(box, title=title, subtitle="" if kind == title else kind)


def _drawn_node(
    box: Box,
    node: DescribedNode | None,
    name: str,
    ports: tuple[tuple[DrawnPort, ...], tuple[DrawnPort, ...]],
    corner: Point,
    size: Point,
) -> DrawnNode:
    return DrawnNode(
        id=name,
        kind=box.kind,
        family=box.family,
        title=box.title,
        subtitle=box.subtitle,
        calculator=node.calculator if node else "",
        path=(*node.group, node.name) if node else (),
        members=node.members if node else (),
        inputs=ports[0],
        outputs=ports[1],
        x=_rounded(corner[0]),
        y=_rounded(corner[1]),
        width=size[0],
        height=size[1],
        executor=node.executor if node else "",
        input_stream_handler=node.input_stream_handler if node else "",
        max_in_flight=node.max_in_flight if node else 1,
        options=node.options if node else "",
    )


def _port(socket: Socket, side: Side, spot: Point, is_connected: bool) -> DrawnPort:
    return DrawnPort(
        port_label(socket),
        socket.name,
        socket.shown or socket.name,
        socket.type,
        socket.is_side_packet,
        socket.is_back_edge,
        is_connected,
        side,
        *_point(spot),
    )


def _producers(edges: list[Edge]) -> list[Producer]:
    return list(dict.fromkeys((edge.source, edge.source_place) for edge in edges))


def _rounded(value: float) -> float:
    return round(value, 1)


def _point(point: Point) -> Point:
    return _rounded(point[0]), _rounded(point[1])
