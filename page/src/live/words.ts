import type { ServableNow } from "../live_types"

/** The word for each state of a servable, in all views. */
export const STATES: Record<ServableNow["state"], string> = {
  AVAILABLE: "ready",
  END: "unloaded",
  FAILED: "failed",
  LOADING: "loading",
  ON_DEMAND: "on demand",
  START: "waiting",
  UNLOADING: "unloading",
}

/** Figures as a person reads them: few digits, with units. */

export function count(value: number): string {
  if (value >= 999_500) return `${(value / 1e6).toFixed(1)}M`
  if (value >= 9995) return `${(value / 1000).toFixed(0)}k`
  if (value >= 1000) return `${(value / 1000).toFixed(1)}k`
  if (value >= 9.95 || Number.isInteger(value)) return value.toFixed(0)
  return value.toFixed(1)
}

/** A time that is given in milliseconds. */
export function time(ms: number): string {
  if (ms >= 60_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`
  if (ms >= 9995) return `${(ms / 1000).toFixed(1)} s`
  if (ms >= 999.5) return `${(ms / 1000).toFixed(2)} s`
  if (ms >= 9.95) return `${ms.toFixed(0)} ms`
  if (ms >= 0.9995) return `${ms.toFixed(1)} ms`
  return `${Math.round(ms * 1000)} µs`
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"]
  let unit = 0
  while (value >= 1023.5 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${value >= 99.5 || unit === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`
}

/** How long ago a Unix time in seconds was. */
export function ago(since: number, now = Date.now() / 1000): string {
  const seconds = Math.max(0, now - since)
  if (seconds < 90) return `${Math.round(seconds)} s`
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} days`
}
