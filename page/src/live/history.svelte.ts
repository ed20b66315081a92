import type { EngineNow, Hour, RequestNow } from "../live_types"
import { feed } from "./feed.svelte"

/** Some seconds of the server, as this page saw them. Null: nothing was seen. */
export interface Moment {
  /** Unix time in seconds, of the end. */
  at: number
  tokensPerSecond: number | null
  /** Milliseconds: medians over the requests that ended. */
  ttft: number | null
  tpot: number | null
  running: number | null
  waiting: number | null
  /** The used share of the fullest cache, 0 to 1. */
  cache: number | null
  requests: number | null
  errors: number | null
}

const EVERY = 5
const KEPT = 3600 / EVERY

/**
 * The last hour. What was before the page was opened, or while it was hidden, the server tells in
 * coarser steps, by the requests that ended; the rest is what the page saw itself.
 */
class History {
  moments = $state.raw<Moment[]>([])
  #generated = new Map<string, number>()
  #tokens = 0
  #hasEngine = false
  #since = 0
  #ttft: number[] = []
  #tpot: number[] = []
  #requests = 0
  #errors = 0
  #isStarted = false

  start(): void {
    if (this.#isStarted) return
    this.#isStarted = true
    this.#since = Date.now() / 1000
    feed.onHour((hour) => this.#before(hour))
    feed.onEngine((engine) => this.#engine(engine))
    feed.onRequest((request) => this.#request(request))
    setInterval(() => this.#close(), EVERY * 1000)
  }

  /** Take the times that the page did not see. */
  #before({ seconds, moments }: Hour): void {
    const now = Date.now() / 1000
    const seen = this.moments.filter((moment) => moment.tokensPerSecond !== null)
    const told = moments
      .map((each) => ({
        at: now - feed.secondsSince(each.end_us),
        tokensPerSecond: each.tokens / seconds,
        ttft: each.ttft_ms,
        tpot: each.tpot_ms,
        running: each.running,
        waiting: each.waiting,
        cache: each.cache,
        requests: each.requests / seconds,
        errors: each.errors,
      }))
      .filter((each) => !seen.some((moment) => Math.abs(moment.at - each.at) < seconds))
    if (!told.length) return
    const all: Moment[] = []
    for (const moment of [...told, ...seen].sort((a, b) => a.at - b.at)) {
      const last = all.at(-1)
      if (last && moment.at - last.at > 3 * seconds) all.push(unseen(moment.at - seconds))
      all.push(moment)
    }
    this.moments = all.slice(-KEPT)
  }

  #engine(engine: EngineNow): void {
    const name = `${engine.g}/${engine.node}`
    const before = this.#generated.get(name)
    this.#hasEngine = true
    // A loaded engine begins again at 0.
    if (before !== undefined) this.#tokens += Math.max(0, engine.generated - before)
    this.#generated.set(name, engine.generated)
  }

  #request(request: RequestNow): void {
    if (request.at !== "end") return
    // A stream begins with the requests that have ended lately; those are of no moment now.
    const ended = Date.now() / 1000 - feed.secondsSince(request.began_us) + request.ms / 1000
    if (ended < this.#since - 1) return
    this.#requests += 1
    if (request.error !== "" || (typeof request.status === "number" && request.status >= 400))
      this.#errors += 1
    if (request.ttft_ms !== null) this.#ttft.push(request.ttft_ms)
    if (request.tpot_ms !== null) this.#tpot.push(request.tpot_ms)
  }

  #close(): void {
    if (feed.status !== "live" || document.visibilityState === "hidden") return
    const at = Date.now() / 1000
    const engines = [...feed.engines.values()]
    const seconds = Math.max(1, at - this.#since)
    const moment: Moment = {
      at,
      tokensPerSecond: this.#hasEngine ? this.#tokens / seconds : null,
      ttft: median(this.#ttft),
      tpot: median(this.#tpot),
      running: engines.length ? sum(engines.map((engine) => engine.running)) : null,
      waiting: engines.length ? sum(engines.map((engine) => engine.waiting)) : null,
      cache: engines.length ? Math.max(...engines.map((engine) => engine.cache)) : null,
      requests: this.#requests / seconds,
      errors: this.#errors,
    }
    // Lines do not go over a time that was not seen.
    const gap = this.moments.length && seconds > 3 * EVERY ? [unseen(at - EVERY)] : []
    this.moments = [...this.moments, ...gap, moment].slice(-KEPT)
    this.#since = at
    this.#tokens = this.#requests = this.#errors = 0
    this.#ttft = []
    this.#tpot = []
  }
}

function unseen(at: number): Moment {
  return {
    at,
    tokensPerSecond: null,
    ttft: null,
    tpot: null,
    running: null,
    waiting: null,
    cache: null,
    requests: null,
    errors: null,
  }
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

export function median(values: number[]): number | null {
  if (!values.length) return null
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

export const history = new History()
