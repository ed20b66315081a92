import type { GraphCounts, GraphShape } from "../live_types"

/** A node, over the last two seconds; call times over the last ten. */
export interface NodeFigures {
  /** Calls of process per second; every run has one of open and one of close beside them. */
  rate: number
  /** The mean number of calls that go on; waiting of coroutines is included. */
  busy: number
  /** Milliseconds; null if nothing was called. */
  p50: number | null
  p99: number | null
  /** Runs in which it is being called. */
  flight: number
  queued: number
  /** Runs in which it has packets and waits for others. */
  waiting: number
  /** Runs that it has failed, since the graph was loaded. */
  errors: number
}

export interface StreamFigures {
  /** Packets per second. */
  rate: number
  queued: number
  /** Runs in which a full queue of it holds a source back. */
  full: number
}

interface Sample {
  at: number
  calls: number[]
  busy: number[]
  packets: number[]
}

const RATES_OVER = 2e6
const TIMES_OVER = 10e6
const BUCKETS = 64

/** Where a bucket of call times begins, in milliseconds: half octaves from 1,024 ns on. */
export function bucketStart(bucket: number): number {
  if (bucket <= 0) return 0
  const octave = 1024 * 2 ** Math.floor((bucket - 1) / 2)
  return (bucket % 2 ? octave : octave * 1.5) / 1e6
}

/** A quantile of call times from counts of buckets, in milliseconds; null without calls. */
export function quantile(counts: ArrayLike<number>, share: number): number | null {
  let total = 0
  for (let i = 0; i < counts.length; i++) total += counts[i]!
  if (!total) return null
  let left = share * total
  for (let i = 0; i < counts.length; i++) {
    const here = counts[i]!
    if (here && left <= here) {
      const start = bucketStart(i)
      return start + (bucketStart(i + 1) - start) * (left / here)
    }
    left -= here
  }
  return bucketStart(counts.length)
}

/** Counters of one loaded graph, as `GET /v1/live` sends them, made into rates and quantiles. */
export class Figures {
  readonly nodes: readonly string[]
  readonly streams: readonly string[]
  runs = 0
  ended = 0
  failed = 0
  throttled: readonly string[] = []

  readonly #nodeAt: Map<string, number>
  readonly #streamAt: Map<string, number>
  readonly #calls: number[]
  readonly #busy: number[]
  readonly #packets: number[]
  readonly #now: NodeFigures[]
  readonly #streamsNow: StreamFigures[]
  #samples: Sample[] = []
  readonly #buckets: Uint32Array
  #bucketSamples: { at: number; counts: Uint32Array }[] = []
  #at = 0
  #arrived = 0

  constructor(shape: GraphShape) {
    this.nodes = shape.nodes
    this.streams = shape.streams
    this.#nodeAt = new Map(shape.nodes.map((name, i) => [name, i]))
    this.#streamAt = new Map(shape.streams.map((name, i) => [name, i]))
    this.#calls = shape.nodes.map(() => 0)
    this.#busy = shape.nodes.map(() => 0)
    this.#packets = shape.streams.map(() => 0)
    this.#now = shape.nodes.map(() => ({
      rate: 0,
      busy: 0,
      p50: null,
      p99: null,
      flight: 0,
      queued: 0,
      waiting: 0,
      errors: 0,
    }))
    this.#streamsNow = shape.streams.map(() => ({ rate: 0, queued: 0, full: 0 }))
    this.#buckets = new Uint32Array(shape.nodes.length * BUCKETS)
  }

  /** Take the changes of an event. `arrived` is this page's clock in milliseconds. */
  take(counts: GraphCounts, arrived: number): void {
    this.runs = counts.runs
    this.ended = counts.ended
    this.failed = counts.failed
    this.throttled = counts.throttled
    for (const [index, node] of Object.entries(counts.n)) {
      const i = Number(index)
      const now = this.#now[i]
      if (!now) continue
      this.#busy[i] = node.b
      now.flight = node.f
      now.queued = node.q
      now.waiting = node.w
      now.errors = node.e
      for (const [bucket, calls] of node.h) {
        const at = i * BUCKETS + bucket
        this.#calls[i] = this.#calls[i]! + calls - this.#buckets[at]!
        this.#buckets[at] = calls
      }
    }
    for (const [index, stream] of Object.entries(counts.s)) {
      const i = Number(index)
      const now = this.#streamsNow[i]
      if (!now) continue
      this.#packets[i] = stream.p
      now.queued = stream.q
      now.full = stream.full
    }
    this.#at = counts.t_us
    this.#arrived = arrived
    this.#samples.push({
      at: this.#at,
      calls: [...this.#calls],
      busy: [...this.#busy],
      packets: [...this.#packets],
    })
    const last = this.#bucketSamples.at(-1)
    if (!last || this.#at - last.at >= 1e6)
      this.#bucketSamples.push({ at: this.#at, counts: this.#buckets.slice() })
  }

  /**
   * Bring rates up to date. An idle graph sends nothing, so time goes on without events.
   *
   * @param clock this page's clock in milliseconds
   */
  refresh(clock: number): void {
    if (!this.#samples.length) return
    const now = this.#at + Math.max(0, clock - this.#arrived) * 1000
    drop(this.#samples, now - RATES_OVER)
    drop(this.#bucketSamples, now - TIMES_OVER)
    const first = this.#samples[0]!
    const seconds = Math.max(0.4, Math.min(now - first.at, RATES_OVER) / 1e6)
    // A sample older than the window stands for its beginning: nothing changed in between.
    const isNew = now - first.at < 1e5
    for (const [i, node] of this.#now.entries()) {
      node.rate = isNew ? 0 : (this.#calls[i]! - first.calls[i]!) / seconds
      node.busy = isNew ? 0 : (this.#busy[i]! - first.busy[i]!) / 1e6 / seconds
    }
    for (const [i, stream] of this.#streamsNow.entries())
      stream.rate = isNew ? 0 : (this.#packets[i]! - first.packets[i]!) / seconds
    const before = this.#bucketSamples[0]!.counts
    const counts = new Uint32Array(BUCKETS)
    for (const [i, node] of this.#now.entries()) {
      for (let b = 0; b < BUCKETS; b++)
        counts[b] = this.#buckets[i * BUCKETS + b]! - before[i * BUCKETS + b]!
      node.p50 = quantile(counts, 0.5)
      node.p99 = quantile(counts, 0.99)
    }
  }

  node(name: string): NodeFigures | undefined {
    return this.#now[this.#nodeAt.get(name) ?? -1]
  }

  stream(name: string): StreamFigures | undefined {
    return this.#streamsNow[this.#streamAt.get(name) ?? -1]
  }
}

/** Drop all samples but the last one that is not younger than `start`. */
function drop(samples: { at: number }[], start: number): void {
  let count = 0
  while (count + 1 < samples.length && samples[count + 1]!.at <= start) count++
  samples.splice(0, count)
}
