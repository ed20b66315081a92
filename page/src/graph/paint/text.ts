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

/**
 * How much of each title another one begins with too, cut at the beginning of a word: the rest is
 * what tells it apart.
 */
export function sharedBeginnings(titles: readonly string[]): Map<string, number> {
  const sorted = [...new Set(titles)].sort()
  const shared = new Map<string, number>()
  for (const [at, title] of sorted.entries()) {
    let most = 0
    for (const other of [sorted[at - 1] ?? "", sorted[at + 1] ?? ""]) {
      let same = 0
      while (same < title.length && title[same] === other[same]) same += 1
      most = Math.max(most, same)
    }
    shared.set(title, title.slice(0, most).search(/(?:[A-Z]?[a-z]*|[0-9]*)$/))
  }
  return shared
}

/** As `fitted`, but the ellipsis stands for what others begin with too, where that is needed. */
export function told(
  context: CanvasRenderingContext2D,
  text: string,
  room: number,
  shared: number,
): string {
  const begin = fitted(context, text, room)
  if (begin === text || begin.length > shared + 3) return begin
  const rest = `…${text.slice(shared)}`
  const share = (room - widthOf(context, rest)) / widthOf(context, text)
  const head = Math.max(1, Math.floor(share * text.length * 0.95))
  return fitted(context, text.slice(0, head) + rest, room)
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
