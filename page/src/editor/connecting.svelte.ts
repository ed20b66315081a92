import type { DrawnNode, DrawnPort, GraphDrawing } from "../graph_types"
import type { CheckedDraft, DraftChange } from "../live_types"
import { postJson, told } from "../server/http.svelte"
import type { Message, Statement } from "./draft"
import { connected, renamed, statementOf, unusedNames, type Change } from "./edits"

/** A text with its drawing, which belong together. */
export interface Scene {
  text: string
  root: Message
  /** Statements of nodes by their ids. */
  nodes: ReadonlyMap<string, Statement>
  drawing: GraphDrawing
}

/** A port in a drawing. */
export interface PortAt {
  node: DrawnNode
  port: DrawnPort
  isOutput: boolean
  /** Unique in the drawing. */
  key: string
}

export function portsOf(drawing: GraphDrawing): PortAt[] {
  return drawing.nodes.flatMap((node) =>
    [false, true].flatMap((isOutput) =>
      (isOutput ? node.outputs : node.inputs).map((port, at) => ({
        node,
        port,
        isOutput,
        key: `${node.id} ${isOutput ? "out" : "in"} ${at}`,
      })),
    ),
  )
}

/** A port as people read it: `Count TEXT`. */
export function portName({ node, port }: PortAt): string {
  return port.label === node.title ? node.title : `${node.title} ${port.label}`
}

/** The changes that connect two ports, or why nothing can. */
export function connection(scene: Scene, one: PortAt, other: PortAt): Change[] | string {
  if (one.isOutput === other.isOutput) return `both are ${one.isOutput ? "outputs" : "inputs"}`
  const [source, target] = one.isOutput ? [one, other] : [other, one]
  const { stream, is_side_packet: isSide } = source.port
  if (isSide !== target.port.is_side_packet) return "a stream is no side packet"
  if (stream === target.port.stream) return "they are connected"
  const { root, nodes } = scene
  const statement = statementOf(root, nodes, target.node, target.port, false)
  if (!statement) return "the text has no such port"
  const isEnd = target.node.kind === "output"
  const isFixed = scene.drawing.nodes.some(
    ({ kind, inputs, outputs }) =>
      (kind === "output" && inputs.some((port) => port.stream === stream)) ||
      (kind.endsWith("input") && outputs.some((port) => port.stream === stream)),
  )
  // Clients know the outputs of a graph by their names, so the node's stream takes the name.
  if (isEnd && !isFixed) {
    const [spare] = unusedNames(root, [target.port.stream])
    const displaced = renamed(root, target.port.stream, spare!, isSide)
    return [
      ...displaced.filter(({ from }) => from < statement.from || from > statement.to),
      ...renamed(root, stream, target.port.stream, isSide),
    ]
  }
  return [connected(statement, stream)]
}

/** The wire that is being made: one end, and what the server says about each other one. */
export class Connecting {
  begun = $state.raw<PortAt | null>(null)
  /** By the ports' keys: "" if the two fit, else why not. Those that are missing are not judged yet. */
  verdicts = $state.raw<ReadonlyMap<string, string>>(new Map())
  #scene: Scene | null = null

  begin(scene: Scene, port: PortAt): void {
    this.#scene = scene
    this.begun = port
    const known = new Map<string, string>()
    const edits = new Map<string, Change[]>()
    const distance = (other: PortAt) =>
      Math.hypot(other.port.x - port.port.x, other.port.y - port.port.y)
    const others = portsOf(scene.drawing).filter(({ key }) => key !== port.key)
    for (const other of others.sort((a, b) => distance(a) - distance(b))) {
      const made = connection(scene, port, other)
      if (typeof made === "string") known.set(other.key, made)
      else edits.set(other.key, made)
    }
    this.verdicts = known
    void this.#judgeAll(port, edits)
  }

  cancel(): void {
    this.begun = null
  }

  /** Go on in a newer drawing, if it still has the port. */
  renew(scene: Scene | null): void {
    const { begun } = this
    if (!begun) return
    const port = scene && portsOf(scene.drawing).find(({ key }) => key === begun.key)
    if (!port) return this.cancel()
    // What fitted stays on offer until it is judged again.
    const before = this.verdicts
    this.begin(scene, port)
    this.verdicts = new Map([...before, ...this.verdicts])
  }

  /** Return why a wire cannot end at another port, or "" if it can. */
  async verdict(other: PortAt): Promise<string> {
    const [scene, begun] = [this.#scene, this.begun]
    if (!scene || !begun) return "no wire has been begun"
    const known = this.verdicts.get(other.key)
    if (known !== undefined) return known
    const made = connection(scene, begun, other)
    return typeof made === "string" ? made : (await judged(scene.text, [made]))[0]!
  }

  // The server judges the nearest ports first, as many at a time as it likes.
  async #judgeAll(port: PortAt, edits: Map<string, Change[]>): Promise<void> {
    const { text } = this.#scene!
    while (edits.size && this.begun === port) {
      const found = await judged(text, [...edits.values()])
      if (this.begun !== port) return
      const keys = [...edits.keys()].slice(0, found.length)
      this.verdicts = new Map([
        ...this.verdicts,
        ...keys.map((key, at) => [key, found[at]!] as const),
      ])
      for (const key of keys) edits.delete(key)
    }
  }
}

/** Ask what is wrong with the first of some edits: "" for one that is right. */
async function judged(text: string, edits: Change[][]): Promise<string[]> {
  const place = placesIn(text)
  const asked: DraftChange[][] = edits.map((edit) =>
    edit.map(({ from, to, insert }) => ({ start: place(from), end: place(to), text: insert })),
  )
  try {
    const answer = await postJson<CheckedDraft>("v1/scratch/check", { text, edits: asked })
    const found = (answer.refusals ?? []).map((refusal) => refusal.split("\n")[0]!)
    return found.length ? found : edits.map(() => "not judged in time")
  } catch (error) {
    return edits.map(() => told(error))
  }
}

/** The server counts characters, and strings here UTF-16 units. */
function placesIn(text: string): (offset: number) => number {
  if (!/[\ud800-\udbff]/.test(text)) return (offset) => offset
  return (offset) => [...text.slice(0, offset)].length
}
