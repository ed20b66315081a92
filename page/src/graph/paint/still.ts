import type { DrawnNode, Frame, GraphDrawing, Wire } from "../../graph_types"
import { count } from "../../live/words"
import type { Palette } from "../../look/palette"
import type { GraphNow } from "../states"
import { FAR, type Size, type Viewport } from "../viewport"
import { paintNode } from "./node"
import { longestPiece } from "./lines"
import { fitted, mono, sans, widthOf } from "./text"

export interface Scene {
  drawing: GraphDrawing
  now: GraphNow
  palette: Palette
  view: Viewport
  screen: Size
  /** Ids of nodes, or "". */
  selected: string
  focused: string
  hovered: string
  found: ReadonlySet<string> | null
  shared: ReadonlyMap<string, number>
  /** The graph is loaded; otherwise all is paler. */
  isLoaded: boolean
  /** Whether packets cannot be seen travelling, so that widths tell their rates. */
  isStill: boolean
}

const CORNER = 9
const DOT_STEP = 26
/** Packets per second from which a line is wider. */
const MANY = 100

/** Paint all that stands: background, frames, wires, nodes. */
export function paintStill(context: CanvasRenderingContext2D, scene: Scene): void {
  const { drawing, view, screen, palette } = scene
  const ratio = devicePixelRatio
  context.setTransform(ratio, 0, 0, ratio, 0, 0)
  context.fillStyle = palette.canvas
  context.fillRect(0, 0, screen.width, screen.height)
  paintDots(context, scene)
  context.setTransform(view.k * ratio, 0, 0, view.k * ratio, view.x * ratio, view.y * ratio)
  context.globalAlpha = scene.isLoaded ? 1 : 0.5
  for (const frame of drawing.frames) if (isSeen(frame, scene)) paintFrame(context, frame, scene)
  const [near, others] = parted(drawing.wires, scene)
  for (const wire of others) paintWire(context, wire, scene, false)
  for (const wire of near) paintWire(context, wire, scene, true)
  paintJunctions(context, scene)
  const alpha = context.globalAlpha
  for (const node of drawing.nodes) {
    if (!isSeen(node, scene)) continue
    context.globalAlpha = !scene.found || scene.found.has(node.id) ? alpha : alpha * 0.25
    paintNode(context, node, scene)
  }
  context.globalAlpha = alpha
  for (const wire of drawing.wires)
    if (wire.is_loop && view.k >= FAR) paintTurns(context, wire, scene)
  context.globalAlpha = 1
}

/** Whether any part of a rectangle is on the screen. */
export function isSeen(
  box: { x: number; y: number; width: number; height: number },
  { view, screen }: Pick<Scene, "view" | "screen">,
): boolean {
  const margin = 24
  return (
    (box.x + box.width + margin) * view.k + view.x > 0 &&
    (box.y + box.height + margin) * view.k + view.y > 0 &&
    (box.x - margin) * view.k + view.x < screen.width &&
    (box.y - margin) * view.k + view.y < screen.height
  )
}

/** The wires at the selected node or under the pointer, and the others. */
function parted(wires: Wire[], scene: Scene): [Wire[], Wire[]] {
  const nodes = new Set([scene.selected, scene.hovered, scene.focused].filter(Boolean))
  const near: Wire[] = []
  const others: Wire[] = []
  for (const wire of wires)
    (nodes.has(wire.source) || nodes.has(wire.target) ? near : others).push(wire)
  return [near, others]
}

function paintDots(context: CanvasRenderingContext2D, { view, screen, palette }: Scene): void {
  let step = DOT_STEP * view.k
  while (step < 18) step *= 2
  context.fillStyle = palette.dot
  context.beginPath()
  for (let x = ((view.x % step) + step) % step; x < screen.width; x += step)
    for (let y = ((view.y % step) + step) % step; y < screen.height; y += step)
      context.rect(x - 0.75, y - 0.75, 1.5, 1.5)
  context.fill()
}

function paintFrame(context: CanvasRenderingContext2D, frame: Frame, scene: Scene): void {
  const { palette, view } = scene
  context.fillStyle = palette.raised
  context.strokeStyle = palette.line
  context.lineWidth = Math.max(1, 1 / view.k)
  context.beginPath()
  context.roundRect(frame.x, frame.y, frame.width, frame.height, 12)
  const alpha = context.globalAlpha
  context.globalAlpha = alpha * 0.45
  context.fill()
  context.globalAlpha = alpha
  context.stroke()
  const size = view.k < FAR ? Math.min(26, 10.5 / view.k) : 11.5
  context.textBaseline = "middle"
  context.textAlign = "left"
  context.font = sans(size, 600)
  context.fillStyle = palette.muted
  const title = fitted(context, frame.title, frame.width - 40)
  context.fillText(title, frame.x + 28, frame.y + 14)
  // A minus in a box: the button over it closes the frame.
  context.strokeStyle = palette.muted
  context.lineWidth = 1.4
  context.beginPath()
  context.roundRect(frame.x + 9, frame.y + 8, 12, 12, 3)
  context.moveTo(frame.x + 12, frame.y + 14)
  context.lineTo(frame.x + 18, frame.y + 14)
  context.stroke()
}

function trace(context: CanvasRenderingContext2D, points: [number, number][]): void {
  context.beginPath()
  const [first, ...rest] = points
  if (!first) return
  context.moveTo(first[0], first[1])
  for (let i = 0; i < rest.length - 1; i++) {
    const [x, y] = rest[i]!
    const before = points[i]!
    const after = rest[i + 1]!
    const room = Math.min(
      CORNER,
      (Math.abs(x - before[0]) + Math.abs(y - before[1])) / 2,
      (Math.abs(after[0] - x) + Math.abs(after[1] - y)) / 2,
    )
    context.arcTo(x, y, after[0], after[1], room)
  }
  const last = rest.at(-1)
  if (last) context.lineTo(last[0], last[1])
}

function strokeOf(wire: Wire, scene: Scene, isNear: boolean): string {
  const { palette } = scene
  const now = scene.now.wires.get(wire.id)
  if (now?.isFull) return palette.bad
  if (isNear) return palette.accent
  if (wire.is_side_packet) return palette.side
  return now && now.rate > 0 ? palette["wire-live"] : palette.wire
}

function paintWire(
  context: CanvasRenderingContext2D,
  wire: Wire,
  scene: Scene,
  isNear: boolean,
): void {
  const { view } = scene
  const isFar = view.k < FAR
  const rate = scene.now.wires.get(wire.id)?.rate ?? 0
  let width = isFar ? Math.max(1.5, 1.1 / view.k) : 1.5
  if (wire.is_side_packet) width = isFar ? 1 / view.k : 1
  // Without dots, the width tells how many packets there are.
  else if (scene.isStill && rate > 0) width *= Math.min(3, 1 + Math.log10(1 + rate) / 1.5)
  else if (rate > MANY || scene.now.wires.get(wire.id)?.isFull) width *= 1.5
  if (isNear) width += isFar ? 0.8 / view.k : 0.75
  context.strokeStyle = strokeOf(wire, scene, isNear)
  context.lineWidth = width
  trace(context, wire.points)
  context.stroke()
}

/** Where lines of one stream part, in the color of the line. */
function paintJunctions(context: CanvasRenderingContext2D, scene: Scene): void {
  if (scene.view.k < FAR) return
  for (const [x, y] of scene.drawing.junctions) {
    const wire = scene.drawing.wires.find((one) => passes(one.points, x, y))
    if (!wire) continue
    context.fillStyle = strokeOf(wire, scene, false)
    context.beginPath()
    context.arc(x, y, wire.is_side_packet ? 2 : 2.5, 0, 2 * Math.PI)
    context.fill()
  }
}

function passes(points: [number, number][], x: number, y: number): boolean {
  for (let i = 1; i < points.length; i++) {
    const [ax, ay] = points[i - 1]!
    const [bx, by] = points[i]!
    const isWithin =
      x >= Math.min(ax, bx) - 0.5 &&
      x <= Math.max(ax, bx) + 0.5 &&
      y >= Math.min(ay, by) - 0.5 &&
      y <= Math.max(ay, by) + 0.5
    if (isWithin) return true
  }
  return false
}

/** How often a node feeds itself, on the longest piece of the line. */
function paintTurns(context: CanvasRenderingContext2D, wire: Wire, scene: Scene): void {
  const { palette } = scene
  const node = scene.drawing.nodes.find(({ id }) => id === wire.target)
  if (!node || !isSeen(node, scene)) return
  const rate = scene.now.wires.get(wire.id)?.rate ?? 0
  const piece = longestPiece(wire.points)
  if (!piece) return
  const isAcross = piece.from[1] === piece.to[1]
  const turns = isAcross ? "turns/s" : "/s"
  const text = rate > 0 ? `↻ ${count(rate)} ${turns}` : "↻ loop"
  const y = (piece.from[1] + piece.to[1]) / 2
  context.font = mono(10.5, 500)
  const width = widthOf(context, text) + 18
  // Beside a node the words end at the line, so that they do not cover the node.
  const x = isAcross ? (piece.from[0] + piece.to[0]) / 2 : piece.from[0] + 9 - width / 2
  context.fillStyle = palette["accent-soft"]
  context.beginPath()
  context.roundRect(x - width / 2, y - 9, width, 18, 9)
  context.fill()
  context.fillStyle = rate > 0 ? palette.accent : palette.muted
  context.textAlign = "center"
  context.textBaseline = "middle"
  context.fillText(text, x, y + 0.5)
  context.textAlign = "left"
}

/** Used by the minimap too: the tint of a node by its state. */
export function tintOf(node: DrawnNode, scene: Pick<Scene, "now" | "palette">): string {
  const { state } = scene.now.of(node)
  if (state === "failed" || state === "throttled") return scene.palette.bad
  if (state === "waiting") return scene.palette.warn
  if (state === "busy") return scene.palette["wire-live"]
  return scene.palette.wire
}
