import { store } from "./store"

/** Whether this browser keeps chats and drafts, for views; "" while it does. */
export const keeping = $state({ problem: "" })
store.onproblem = (problem) => (keeping.problem = problem)

const EVERY = 300
const waiting = new Map<string, () => void>()

/** Call `save` soon: once for many calls of one name, and at once when the page may go. */
export function soon(name: string, save: () => void): void {
  if (!waiting.has(name)) setTimeout(() => run(name), EVERY)
  waiting.set(name, save)
}

function run(name: string): void {
  const save = waiting.get(name)
  waiting.delete(name)
  save?.()
}

function flush(): void {
  for (const name of [...waiting.keys()]) run(name)
}
/** The page goes: what fails now fails because of that. */
export const leaving = { isSo: false }
addEventListener("pagehide", () => {
  leaving.isSo = true
  flush()
})
// A page may come back as it was.
addEventListener("pageshow", () => (leaving.isSo = false))
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") flush()
})

const drafts = new Map<string, unknown>()

/** Resolves when drafts can be had without waiting: views that have some begin after it. */
export const draftsRead: Promise<void> = store
  .all("draft")
  .then((found) => found.forEach(([place, value]) => drafts.set(place, value)))

/** A text that a person writes in a place of the page, kept until it is as it was at first. */
export class Draft {
  readonly first: string
  readonly #place: string
  #value = $state("")

  /** `draftsRead` must have resolved. */
  constructor(place: string, first: string) {
    this.first = first
    this.#place = place
    const kept = drafts.get(place)
    this.#value = typeof kept === "string" ? kept : first
  }

  get isKept(): boolean {
    return drafts.has(this.#place)
  }

  get isChanged(): boolean {
    return this.#value !== this.first
  }

  get value(): string {
    return this.#value
  }

  set value(value: string) {
    if (value === this.#value) return
    this.#value = value
    if (value === this.first) drafts.delete(this.#place)
    else drafts.set(this.#place, value)
    soon(`draft ${this.#place}`, () => {
      void store.put([["draft", this.#place, drafts.get(this.#place)]])
    })
  }
}
