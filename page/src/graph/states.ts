import type { DrawnNode, GraphDrawing, Wire } from "../graph_types"
import type { Figures, NodeFigures } from "../live/figures"
import { count } from "../live/words"

export type State = "idle" | "busy" | "waiting" | "throttled" | "failed" | "unknown"

/** A drawn node as it is now: its figures, or the sums of a closed subgraph. */
export interface NodeNow extends NodeFigures {
  state: State
  /** The reason of the state in a few words; "" where there is none. */
  why: string
}

export interface WireNow {
  /** Packets per second. */
  rate: number
  queued: number
  isFull: boolean
}

/** A failure of a node, as `GET /v1/graphs/{name}/nodes/{node}` tells it. */
export interface Failure {
  text: string
  /** This page's clock, in milliseconds. */
  at: number
}

const NONE: NodeNow = {
  state: "idle",
  why: "",
  rate: 0,
  busy: 0,
  p50: null,
  p99: null,
  flight: 0,
  queued: 0,
  waiting: 0,
  errors: 0,
}
/** Looks in a row that make a wait or a queue more than a moment. */
const LASTING = 4
const FAILED_FOR = 60_000

/** The state of each node and wire of a drawing, kept up to date from counters. */
export class GraphNow {
  nodes: ReadonlyMap<string, NodeNow> = new Map()
  wires: ReadonlyMap<string, WireNow> = new Map()
  readonly #waits = new Map<string, number>()
  readonly #queues = new Map<string, number>()

  /** `failures` by the names of nodes, as counts have them. */
  refresh(
    drawing: GraphDrawing,
    figures: Figures | null,
    failures: ReadonlyMap<string, Failure>,
    clock: number,
  ): void {
    const wires = new Map<string, WireNow>()
    const queued = new Map<string, number>()
    for (const wire of drawing.wires) {
      const stream = wire.is_side_packet ? undefined : figures?.stream(wire.stream)
      if (!stream) continue
      if (!queued.has(wire.stream))
        queued.set(wire.stream, this.#lasting(wire.stream, stream.queued))
      wires.set(wire.id, {
        rate: stream.rate,
        queued: queued.get(wire.stream) ?? 0,
        isFull: stream.full > 0,
      })
    }
    this.wires = wires
    const nodes = new Map<string, NodeNow>()
    for (const node of drawing.nodes)
      nodes.set(node.id, this.#node(node, drawing, figures, failures, clock))
    this.nodes = nodes
  }

  of(node: DrawnNode): NodeNow {
    return this.nodes.get(node.id) ?? NONE
  }

  #lasting(stream: string, now: number): number {
    const looks = now > 0 ? (this.#queues.get(stream) ?? 0) + 1 : 0
    this.#queues.set(stream, looks)
    return looks >= 2 ? now : 0
  }

  #node(
    node: DrawnNode,
    drawing: GraphDrawing,
    figures: Figures | null,
    failures: ReadonlyMap<string, Failure>,
    clock: number,
  ): NodeNow {
    const now = summed(node, figures)
    if (node.kind === "unknown") return { ...now, state: "unknown", why: "not registered" }
    if (node.kind === "output") return now
    const failed = node.members
      .map((member) => failures.get(member))
      .find((failure) => failure && clock - failure.at < FAILED_FOR)
    if (failed) return { ...now, state: "failed", why: failed.text || "failed" }
    const isHeld =
      node.kind === "input"
        ? node.outputs.some((port) => figures?.throttled.includes(port.stream))
        : node.members.some((member) => figures?.throttled.includes(member))
    if (isHeld) return { ...now, state: "throttled", why: this.#fullQueue(drawing) }
    const looks = now.waiting > 0 && now.flight === 0 ? (this.#waits.get(node.id) ?? 0) + 1 : 0
    this.#waits.set(node.id, looks)
    if (looks >= LASTING) return { ...now, state: "waiting", why: waitsFor(node, figures) }
    return { ...now, state: now.flight > 0 || now.rate > 0 ? "busy" : "idle" }
  }

  #fullQueue(drawing: GraphDrawing): string {
    let longest: Wire | undefined
    for (const wire of drawing.wires) {
      const now = this.wires.get(wire.id)
      if (now?.isFull && now.queued >= (this.wires.get(longest?.id ?? "")?.queued ?? 0))
        longest = wire
    }
    const at = drawing.nodes.find((node) => node.id === longest?.target)
    return at ? `a full queue at ${at.title}` : "a full queue"
  }
}

function summed(node: DrawnNode, figures: Figures | null): NodeNow {
  if (!figures || !node.members.length) return { ...NONE }
  if (node.members.length === 1) return { ...NONE, ...figures.node(node.members[0]!) }
  const sum: NodeNow = { ...NONE }
  for (const member of node.members) {
    const one = figures.node(member)
    if (!one) continue
    sum.rate += one.rate
    sum.busy += one.busy
    sum.flight += one.flight
    sum.queued += one.queued
    sum.waiting += one.waiting
    sum.errors += one.errors
  }
  return sum
}

function waitsFor(node: DrawnNode, figures: Figures | null): string {
  const missing = node.inputs.filter(
    (port) => !port.is_side_packet && figures?.stream(port.stream)?.queued === 0,
  )
  const names = missing.map((port) => port.label)
  return names.length ? `waits for ${names.join(", ")}` : "waits for input"
}

/** Everything about a node in one sentence, for those who do not see it. */
export function sentence(node: DrawnNode, now: NodeNow): string {
  const words = [node.title]
  if (node.subtitle) words.push(node.subtitle)
  if (node.kind === "input") words[0] = `input ${node.title}`
  if (node.kind === "output") words[0] = `output ${node.title}`
  if (node.kind === "side_input") words[0] = `side packet ${node.title}`
  if (!node.members.length) return words.join(", ")
  words.push(now.state)
  if (now.rate > 0) words.push(`${count(now.rate)} calls per second`)
  if (now.p50 !== null) words.push(`median ${spoken(now.p50)}`)
  if (now.queued) words.push(`${now.queued} ${now.queued === 1 ? "packet waits" : "packets wait"}`)
  if (now.why) words.push(now.why)
  return words.join(", ")
}

function spoken(ms: number): string {
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} seconds`
  if (ms >= 1) return `${ms.toFixed(ms >= 10 ? 0 : 1)} milliseconds`
  return `${Math.round(ms * 1000)} microseconds`
}
