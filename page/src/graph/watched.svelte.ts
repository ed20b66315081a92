import type { GraphDrawing } from "../graph_types"
import { feed } from "../live/feed.svelte"
import { Figures } from "../live/figures"
import type { GraphView, NodeView } from "../live_types"
import { getJson } from "../server/http.svelte"
import { type Failure, GraphNow } from "./states"

const REFRESH = 250
const NARROW = matchMedia("(max-width: 640px)")

/** A graph that somebody looks at: its drawing, and its counters as they come. */
export class WatchedGraph {
  readonly name: string
  view = $state.raw<GraphView | null>(null)
  drawing = $state.raw<GraphDrawing | null>(null)
  error = $state.raw<unknown>(null)
  /** Changes with each look at the counters: `now` and `figures` are plain objects. */
  tick = $state(0)
  figures: Figures | null = null
  readonly now = new GraphNow()

  readonly #failures = new Map<string, Failure>()
  readonly #asked = new Map<string, number>()
  #expand: string[] = []
  #revision = ""
  #stops: (() => void)[] = []

  constructor(name: string) {
    this.name = name
  }

  start(): void {
    const timer = setInterval(() => this.#refresh(), REFRESH)
    const narrow = () => void this.load(this.#expand)
    NARROW.addEventListener("change", narrow)
    this.#stops = [
      () => clearInterval(timer),
      () => NARROW.removeEventListener("change", narrow),
      feed.onGraph((counts, shape) => {
        if (counts.g !== this.name) return
        // Counters begin again with each revision and each stream.
        if (!this.figures || shape !== this.#shape) {
          this.#shape = shape
          this.figures = new Figures(shape)
        }
        this.figures.take(counts, performance.now())
        if (this.#revision && shape.revision !== this.#revision) void this.load(this.#expand)
        this.#findFailures()
      }),
    ]
  }
  #shape: unknown = null

  stop(): void {
    for (const stop of this.#stops) stop()
  }

  /** Read the drawing, with these subgraphs open. */
  async load(expand: string[]): Promise<void> {
    this.#expand = expand
    const query = new URLSearchParams()
    if (expand.length) query.set("expand", expand.join(","))
    if (NARROW.matches) query.set("direction", "down")
    try {
      const view = await getJson<GraphView>(`v1/graphs/${encodeURIComponent(this.name)}?${query}`)
      if (this.#expand !== expand) return
      this.#revision = view.revision
      this.view = view
      this.drawing = view.layout as unknown as GraphDrawing
      this.error = null
      this.#refresh()
    } catch (error) {
      this.error = error
    }
  }

  /** The name of a node in counts, of the drawing's node; "" if it has none or several. */
  memberOf(id: string): string {
    const node = this.drawing?.nodes.find((one) => one.id === id)
    return node?.members.length === 1 ? node.members[0]! : ""
  }

  nodeView(node: string): Promise<NodeView> {
    const path = `v1/graphs/${encodeURIComponent(this.name)}/nodes/${encodeURIComponent(node)}`
    return getJson<NodeView>(path)
  }

  #refresh(): void {
    if (!this.drawing) return
    const clock = performance.now()
    this.figures?.refresh(clock)
    this.now.refresh(this.drawing, this.figures, this.#failures, clock)
    this.tick += 1
  }

  /** Counters tell that a node has failed a run; its words are asked for. */
  #findFailures(): void {
    for (const name of this.figures?.nodes ?? []) {
      const errors = this.figures?.node(name)?.errors ?? 0
      const before = this.#asked.get(name) ?? 0
      this.#asked.set(name, errors)
      if (errors > before) void this.#askFailure(name)
    }
  }

  async #askFailure(name: string): Promise<void> {
    try {
      const last = (await this.nodeView(name)).errors.at(-1)
      if (!last) return
      const seconds = feed.secondsSince(last.t_us)
      this.#failures.set(name, {
        text: last.text || `code ${last.code}`,
        at: performance.now() - seconds * 1000,
      })
    } catch {
      this.#failures.set(name, { text: "failed", at: performance.now() })
    }
  }
}
