/** The names of `tokens.css` that the canvases draw with. */
const NAMES = [
  "bg",
  "canvas",
  "dot",
  "surface",
  "raised",
  "line",
  "line-strong",
  "text",
  "muted",
  "faint",
  "accent",
  "accent-soft",
  "ok",
  "warn",
  "warn-soft",
  "bad",
  "bad-soft",
  "wire",
  "wire-live",
  "side",
  "packet",
  "kind-model",
  "kind-io",
  "kind-flow",
  "kind-image",
  "kind-own",
  "kind-tensor",
  "kind-session",
] as const

export type Palette = Record<(typeof NAMES)[number], string>

/** Read the colours of the present theme; a canvas knows no custom properties. */
export function readPalette(): Palette {
  const probe = document.createElement("i")
  document.body.append(probe)
  const style = getComputedStyle(probe)
  const found: Partial<Palette> = {}
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`
    found[name] = style.color
  }
  probe.remove()
  return found as Palette
}
