const SANS = '"Inter Variable", system-ui, sans-serif'
const MONO = '"JetBrains Mono Variable", ui-monospace, monospace'

export const sans = (size: number, weight = 400) => `${weight} ${size}px ${SANS}`
export const mono = (size: number, weight = 400) => `${weight} ${size}px ${MONO}`

/** The faces that a canvas draws with; it does not load them by itself. */
export function loadFaces(): Promise<unknown> {
  const faces = [sans(13), sans(13, 600), mono(11), mono(11, 600)]
  return Promise.all(faces.map((face) => document.fonts.load(face)))
}

const cut = new Map<string, string>()
const widths = new Map<string, number>()
const KEPT = 5000

export function widthOf(context: CanvasRenderingContext2D, text: string): number {
  const key = `${context.font}\n${text}`
  let width = widths.get(key)
  if (width === undefined) {
    if (widths.size > KEPT) widths.clear()
    width = context.measureText(text).width
    widths.set(key, width)
  }
  return width
}

/** The text, or its beginning with an ellipsis if it is wider than `room`. */
export function fitted(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (widthOf(context, text) <= room) return text
  const key = `${context.font}\n${Math.round(room)}\n${text}`
  let shorter = cut.get(key)
  if (shorter === undefined) {
    let low = 0
    let high = text.length
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (context.measureText(`${text.slice(0, middle).trimEnd()}…`).width <= room) low = middle
      else high = middle - 1
    }
    shorter = low ? `${text.slice(0, low).trimEnd()}…` : ""
    if (cut.size > KEPT) cut.clear()
    cut.set(key, shorter)
  }
  return shorter
}
