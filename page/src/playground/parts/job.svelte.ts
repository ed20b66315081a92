import { told } from "../../server/http.svelte"

/** One request of a view at a time, with its state for the view. */
export class Job {
  isBusy = $state(false)
  error = $state("")
  /** Milliseconds that the last one took; null before its end. */
  took = $state<number | null>(null)

  #abort: AbortController | null = null

  /** Run a request; one that is on its way is stopped. Its failure becomes `error`. */
  async run(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    this.#abort?.abort()
    const abort = new AbortController()
    this.#abort = abort
    this.isBusy = true
    this.error = ""
    this.took = null
    const began = performance.now()
    try {
      await work(abort.signal)
    } catch (error) {
      if (!abort.signal.aborted) this.error = told(error)
    }
    if (this.#abort !== abort) return
    this.took = performance.now() - began
    this.isBusy = false
  }

  stop = (): void => {
    this.#abort?.abort()
  }
}

/** Milliseconds for a person: "87 ms", "1.4 s". */
export function duration(milliseconds: number): string {
  return milliseconds < 1000
    ? `${milliseconds.toFixed(0)} ms`
    : `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 2 : 1)} s`
}
