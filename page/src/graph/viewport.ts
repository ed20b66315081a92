/** Where a drawing stands on the screen: `screen = drawing * k + (x, y)`. */
export interface Viewport {
  x: number
  y: number
  k: number
}

export interface Size {
  width: number
  height: number
}

export const LEAST_ZOOM = 0.06
export const GREATEST_ZOOM = 2.5
/** Below this, only names, tints and bars can be read. */
export const FAR = 0.42
const FIT_ZOOM = 2
/** Below this, a drawing is a pattern: no name can be read. */
const PATTERN = 0.1
export const READABLE = 0.8

/** The whole drawing in the middle of the screen. */
export function fit(drawing: Size, screen: Size, margin = 24): Viewport {
  const k = Math.max(
    LEAST_ZOOM,
    Math.min(
      FIT_ZOOM,
      (screen.width - 2 * margin) / Math.max(1, drawing.width),
      (screen.height - 2 * margin) / Math.max(1, drawing.height),
    ),
  )
  return {
    k,
    x: (screen.width - drawing.width * k) / 2,
    y: (screen.height - drawing.height * k) / 2,
  }
}

/** The whole drawing, or its beginning where the whole cannot be read. */
export function begun(
  drawing: Size & { nodes: readonly { x: number; y: number; width: number }[] },
  screen: Size,
  margin = 24,
): Viewport {
  const whole = fit(drawing, screen)
  const first = drawing.nodes[0]
  if (whole.k > PATTERN || !first) return whole
  const k = READABLE
  return {
    k,
    x: screen.width / 2 - (first.x + first.width / 2) * k,
    y: margin - first.y * k,
  }
}

/** Zoom by a factor; the point (x, y) of the screen stays where it is. */
export function zoomed(view: Viewport, factor: number, x: number, y: number): Viewport {
  const k = Math.min(GREATEST_ZOOM, Math.max(LEAST_ZOOM, view.k * factor))
  return { k, x: x - ((x - view.x) * k) / view.k, y: y - ((y - view.y) * k) / view.k }
}

/** Move as little as needed to bring a rectangle of the drawing onto the screen. */
export function revealed(
  view: Viewport,
  box: { x: number; y: number; width: number; height: number },
  screen: Size,
  margin = 24,
): Viewport {
  const shift = (start: number, length: number, room: number) => {
    if (start < margin || length > room - 2 * margin) return margin - start
    return Math.min(0, room - margin - (start + length))
  }
  const left = view.x + box.x * view.k
  const top = view.y + box.y * view.k
  const isInside =
    left >= 0 &&
    top >= 0 &&
    left + box.width * view.k <= screen.width &&
    top + box.height * view.k <= screen.height
  if (isInside) return view
  return {
    k: view.k,
    x: view.x + shift(left, box.width * view.k, screen.width),
    y: view.y + shift(top, box.height * view.k, screen.height),
  }
}
