import type { Calculators as Listed, CalculatorView } from "../live_types"
import { getJson } from "../server/http.svelte"
import type { Known } from "./completions"

/** The registered calculators: their names at once, and descriptions as texts name them. */
export class Calculators implements Known {
  calculators = $state.raw<Listed["calculators"]>([])
  subgraphs = $state.raw<string[]>([])
  #views = $state.raw<ReadonlyMap<string, CalculatorView>>(new Map())
  readonly #asked = new Set<string>()

  view(calculator: string): CalculatorView | undefined {
    return this.#views.get(calculator)
  }

  async load(): Promise<void> {
    const listed = await getJson<Listed>("v1/calculators").catch(() => null)
    if (!listed) return
    this.calculators = listed.calculators
    this.subgraphs = listed.subgraphs
  }

  /** Read the descriptions of calculators that are registered and not known yet. */
  async look(names: string[]): Promise<void> {
    const registered = new Set([...this.calculators.map(({ name }) => name), ...this.subgraphs])
    const wanted = names.filter((name) => registered.has(name) && !this.#asked.has(name))
    await Promise.all(
      wanted.map(async (name) => {
        this.#asked.add(name)
        const path = `v1/calculators/${encodeURIComponent(name)}`
        const view = await getJson<CalculatorView>(path).catch(() => null)
        if (view) this.#views = new Map([...this.#views, [name, view]])
        else this.#asked.delete(name)
      }),
    )
  }
}
