import type {
  EngineNow,
  GraphCounts,
  GraphShape,
  Hello,
  Hour,
  LastPackets,
  LogLine,
  LogLines,
  Processes,
  RequestNow,
  Servables,
  ServableNow,
} from "../live_types"
import { ServerError, stream, told } from "../server/http.svelte"

export type GraphListener = (counts: GraphCounts, shape: GraphShape) => void

const FIRST_WAIT = 500
const LONGEST_WAIT = 10_000
const KEPT_REQUESTS = 200
const KEPT_LINES = 1000

/** All that `GET /v1/live` says, for all views: one stream per page, none while the page is hidden. */
class Feed {
  status = $state<"connecting" | "live" | "offline">("connecting")
  reason = $state("")
  hello = $state.raw<Hello | null>(null)
  servables = $state.raw<ServableNow[] | null>(null)
  /** Engines by graph and node. */
  engines = $state.raw<ReadonlyMap<string, EngineNow>>(new Map())
  /** The newest first. */
  requests = $state.raw<RequestNow[]>([])
  packets = $state.raw<LastPackets | null>(null)
  /** The last two looks at the server's processes, the newer one first. */
  processes = $state.raw<Processes[]>([])
  /** The oldest first. */
  log = $state.raw<LogLine[]>([])

  #graph = ""
  #focus = ""
  #listeners = new Set<GraphListener>()
  #engineListeners = new Set<(engine: EngineNow) => void>()
  #requestListeners = new Set<(request: RequestNow) => void>()
  #hourListeners = new Set<(hour: Hour) => void>()
  #abort: AbortController | null = null
  #wait = FIRST_WAIT
  #timer: ReturnType<typeof setTimeout> | undefined
  #isStarted = false
  #helloAt = 0

  start(): void {
    this.#isStarted = true
    document.addEventListener("visibilitychange", () => this.#again())
    this.#again()
  }

  /** How long ago a time of the server's clock was. */
  secondsSince(us: number): number {
    if (!this.hello) return 0
    const now = this.hello.now_us + (performance.now() - this.#helloAt) * 1000
    return Math.max(0, (now - us) / 1e6)
  }

  /** Begin anew, as with another key. */
  restart(): void {
    if (this.#isStarted) this.#again()
  }

  /** Watch the counters of a graph, and the packets of one of its nodes; "" for neither. */
  watch(graph: string, focus = ""): void {
    if (graph === this.#graph && focus === this.#focus) return
    this.#graph = graph
    this.#focus = focus
    this.packets = null
    if (this.#isStarted) this.#again()
  }

  onGraph(listener: GraphListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  onEngine(listener: (engine: EngineNow) => void): () => void {
    this.#engineListeners.add(listener)
    return () => this.#engineListeners.delete(listener)
  }

  onRequest(listener: (request: RequestNow) => void): () => void {
    this.#requestListeners.add(listener)
    return () => this.#requestListeners.delete(listener)
  }

  onHour(listener: (hour: Hour) => void): () => void {
    this.#hourListeners.add(listener)
    return () => this.#hourListeners.delete(listener)
  }

  #again(): void {
    clearTimeout(this.#timer)
    this.#abort?.abort()
    this.#abort = null
    if (document.visibilityState === "hidden") return
    const abort = new AbortController()
    this.#abort = abort
    void this.#read(abort)
  }

  async #read(abort: AbortController): Promise<void> {
    const query = new URLSearchParams({ graphs: this.#graph, hz: "5" })
    if (this.#focus) query.set("focus", `${this.#graph}/${this.#focus}`)
    try {
      for await (const { event, data } of stream(`v1/live?${query}`, { signal: abort.signal })) {
        if (abort.signal.aborted) return
        this.#wait = FIRST_WAIT
        this.#take(event, data)
      }
      this.reason = "The server has ended the stream."
    } catch (error) {
      if (abort.signal.aborted) return
      // A key is asked for; the new one starts the feed again.
      if (error instanceof ServerError && error.status === 401) return
      this.reason = told(error)
    }
    if (abort.signal.aborted) return
    this.status = "offline"
    this.#timer = setTimeout(() => this.#again(), this.#wait)
    this.#wait = Math.min(LONGEST_WAIT, this.#wait * 2)
  }

  #take(event: string, data: string): void {
    const value: unknown = JSON.parse(data)
    if (event === "hello") {
      this.hello = value as Hello
      this.#helloAt = performance.now()
      this.status = "live"
    } else if (event === "hour") for (const listener of this.#hourListeners) listener(value as Hour)
    else if (event === "servables") this.servables = (value as Servables).servables
    else if (event === "graph") {
      const counts = value as GraphCounts
      const shape = this.hello?.graphs[counts.g]
      if (shape) for (const listener of this.#listeners) listener(counts, shape)
    } else if (event === "engine") {
      const engine = value as EngineNow
      this.engines = new Map(this.engines).set(`${engine.g}/${engine.node}`, engine)
      for (const listener of this.#engineListeners) listener(engine)
    } else if (event === "request") {
      const now = value as RequestNow
      const before = this.requests.find((request) => request.id === now.id)
      // A new stream begins with the requests that have ended lately.
      if (before?.at === "end") return
      const others = this.requests.filter((request) => request.id !== now.id)
      this.requests = [now, ...others].slice(0, KEPT_REQUESTS)
      for (const listener of this.#requestListeners) listener(now)
    } else if (event === "packets") this.packets = value as LastPackets
    else if (event === "processes")
      this.processes = [value as Processes, ...this.processes.slice(0, 1)]
    else if (event === "log") {
      // A new stream sends all that are kept, and a new server counts from 1.
      const { lines } = value as LogLines
      const first = lines[0]?.number ?? 0
      this.log = [...this.log.filter(({ number }) => number < first), ...lines].slice(-KEPT_LINES)
    }
  }
}

export const feed = new Feed()
