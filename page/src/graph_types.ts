// Made by `python -m servers.page.typescript` from servers/drawing/drawing.py. Do not edit.

/**
 * A graph with all places.
 *
 * Attributes:
 *     direction: of the streams. Rightwards, ports are rows at the sides of a node; downwards,
 *         they stand at its top and bottom.
 *     head: the height of the part of a node with its name, above its rows.
 *     foot: the height of the part below its rows, for figures.
 *     junctions: where lines of one stream part.
 *     closed: paths of the subgraphs that could be open.
 *     has_minimap: the graph is so large that a reader needs one.
 */
export interface GraphDrawing {
  title: string
  direction: "down" | "right"
  width: number
  height: number
  head: number
  foot: number
  nodes: DrawnNode[]
  wires: Wire[]
  frames: Frame[]
  junctions: [number, number][]
  closed: string[][]
  has_minimap: boolean
}

/**
 * A node, a closed subgraph, or an input or output of the graph.
 *
 * Attributes:
 *     id: unique in the drawing, and the same in every drawing of the graph: the node's name, or
 *         ``input:NAME``, ``output:NAME`` or ``side_input:NAME``.
 *     title: the name within its subgraph.
 *     subtitle: the calculator without "Calculator", the type of a subgraph, or the tag of an
 *         input or output; "" if it says the same as the title.
 *     calculator: the registered name; "" for inputs and outputs.
 *     path: names of the subgraph nodes around it, the outermost first, and its own; a closed
 *         subgraph opens by ``expand=PATH``, joined by "/".
 *     members: names of nodes in live counts: its own, and those of all nodes in a closed
 *         subgraph.
 *     options: as text of the graph's language.
 */
export interface DrawnNode {
  id: string
  kind: "calculator" | "input" | "output" | "side_input" | "source" | "subgraph" | "unknown"
  family: "flow" | "image" | "io" | "model" | "own" | "session" | "subgraph" | "tensor"
  title: string
  subtitle: string
  calculator: string
  path: string[]
  members: string[]
  inputs: DrawnPort[]
  outputs: DrawnPort[]
  x: number
  y: number
  width: number
  height: number
  executor: string
  input_stream_handler: string
  max_in_flight: number
  options: string
}

/**
 * One end of a stream or side packet, at the edge of its node.
 *
 * Attributes:
 *     label: ``TAG``, ``TAG:2``, or the stream's name where the port has no tag.
 *     stream: the name of the stream or side packet, as live counts have it.
 *     shown: that name without the prefix of the subgraph around the node.
 *     type: of its packets; "" if it is not known.
 *     is_connected: a line begins or ends here.
 *     side: the edge of the node.
 *     x: of the point where lines begin or end.
 */
export interface DrawnPort {
  label: string
  stream: string
  shown: string
  type: string
  is_side_packet: boolean
  is_back_edge: boolean
  is_connected: boolean
  side: "bottom" | "left" | "right" | "top"
  x: number
  y: number
}

/**
 * A line from an output to an input. Lines of one stream share their beginning.
 *
 * Attributes:
 *     id: unique in the drawing, and the same in every drawing of the graph that has it.
 *     source, target: ids of nodes.
 *     source_port, target_port: indexes in their ``outputs`` and ``inputs``.
 *     is_loop: it ends at the node where it begins, and goes over its top.
 *     is_back_edge: it closes a loop: it was declared so, or runs against the direction.
 *     points: corners of horizontal and vertical pieces, both ends included.
 */
export interface Wire {
  id: string
  stream: string
  type: string
  source: string
  source_port: number
  target: string
  target_port: number
  is_side_packet: boolean
  is_back_edge: boolean
  is_loop: boolean
  points: [number, number][]
}

/**
 * An open subgraph around its nodes. Frames are in the order of drawing, the outermost first.
 *
 * Attributes:
 *     path: as `DrawnNode.path`; the subgraph closes when it is left out of ``expand``.
 *     members: names of all nodes inside, as in live counts.
 */
export interface Frame {
  path: string[]
  title: string
  subtitle: string
  members: string[]
  x: number
  y: number
  width: number
  height: number
}
