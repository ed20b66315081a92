import type { DrawnNode, DrawnPort } from "../../graph_types"
import { count, time } from "../../live/words"
import type { Palette } from "../../look/palette"
import type { NodeNow } from "../states"
import { FAR } from "../viewport"
import { colorName, FILLED, signOf } from "./signs"
import type { Scene } from "./still"
import { fitted, mono, sans, told, widthOf } from "./text"

const RADIUS = 9
const SIGN = 26
const PAD = 12
/** Between the tags of an input and an output in one row. */
const GAP = 12
const BAR = 3
/** The height of the tags at the top and bottom of a node, where streams go down. */
const STRIP = 16
/** Narrower nodes have no room for a 99th percentile. */
const WIDE = 180

/** Paint a node with its figures and state; far away only name, tint and bar. */
export function paintNode(context: CanvasRenderingContext2D, node: DrawnNode, scene: Scene): void {
  const { palette, view } = scene
  const now = scene.now.of(node)
  context.textBaseline = "middle"
  context.textAlign = "left"
  if (isPin(node)) paintPin(context, node, scene, now)
  else if (view.k < FAR) paintFar(context, node, scene, now)
  else {
    paintBody(context, node, scene, now)
    paintHead(context, node, scene, now)
    if (now.state === "unknown") paintHatch(context, node, palette)
    for (const port of node.inputs) paintPort(context, node, port, scene, now, true)
    for (const port of node.outputs) paintPort(context, node, port, scene, now, false)
    paintFoot(context, node, scene, now)
  }
  if (scene.focused === node.id || scene.selected === node.id) paintRing(context, node, scene)
}

function titled(
  context: CanvasRenderingContext2D,
  { title }: DrawnNode,
  { shared }: Scene,
  room: number,
): string {
  return told(context, title, room, shared.get(title) ?? 0)
}

function isPin(node: DrawnNode): boolean {
  return node.kind === "input" || node.kind === "output" || node.kind === "side_input"
}

function kindColor(node: DrawnNode, palette: Palette): string {
  return palette[colorName(node.family)]
}

function edgeColor(node: DrawnNode, palette: Palette, now: NodeNow): [string, number] {
  if (now.state === "failed" || now.state === "throttled") return [palette.bad, 1]
  if (now.state === "waiting") return [palette.warn, 1]
  if (now.state === "busy") return [kindColor(node, palette), 0.65]
  return [palette.line, 1]
}

function shape(context: CanvasRenderingContext2D, node: DrawnNode, radius = RADIUS): void {
  context.beginPath()
  context.roundRect(node.x, node.y, node.width, node.height, radius)
}

function withAlpha(context: CanvasRenderingContext2D, share: number, paint: () => void): void {
  const alpha = context.globalAlpha
  context.globalAlpha = alpha * share
  paint()
  context.globalAlpha = alpha
}

function paintBody(
  context: CanvasRenderingContext2D,
  node: DrawnNode,
  { palette, view }: Scene,
  now: NodeNow,
): void {
  // A soft edge below instead of a blurred shadow, which costs more than all else.
  withAlpha(context, 0.16, () => {
    context.fillStyle = "#000"
    context.beginPath()
    context.roundRect(node.x - 0.5, node.y + 2, node.width + 1, node.height + 1, RADIUS + 1)
    context.fill()
  })
  context.fillStyle = palette.surface
  shape(context, node)
  context.fill()
  if (now.state === "failed" || now.state === "throttled") {
    withAlpha(context, now.state === "failed" ? 1 : 0.75, () => {
      context.fillStyle = palette["bad-soft"]
      context.fill()
    })
  }
  if (node.kind === "subgraph") {
    // A second sheet behind: there is more inside.
    context.strokeStyle = palette.line
    context.lineWidth = 1
    context.beginPath()
    context.roundRect(node.x + 4, node.y - 4, node.width - 8, 12, [RADIUS, RADIUS, 0, 0])
    context.save()
    context.clip()
    context.beginPath()
    context.roundRect(node.x + 4, node.y - 4, node.width - 8, node.height, RADIUS)
    context.stroke()
    context.restore()
    context.fillStyle = palette.surface
    shape(context, node)
    context.fill()
  }
  const [edge, alpha] = edgeColor(node, palette, now)
  context.strokeStyle = edge
  context.lineWidth = Math.max(1, 0.9 / view.k)
  shape(context, node)
  withAlpha(context, alpha, () => context.stroke())
}

function paintHead(
  context: CanvasRenderingContext2D,
  node: DrawnNode,
  scene: Scene,
  now: NodeNow,
): void {
  const { palette, drawing } = scene
  const color = kindColor(node, palette)
  const isDown = drawing.direction === "down"
  const middle = node.y + drawing.head / 2 + (isDown && node.inputs.length ? STRIP : 0)
  const left = node.x + 10
  const isFailed = now.state === "failed"
  context.beginPath()
  context.roundRect(left, middle - SIGN / 2, SIGN, SIGN, 7)
  context.fillStyle = isFailed ? palette.bad : color
  withAlpha(context, isFailed ? 1 : 0.17, () => context.fill())
  context.save()
  context.translate(left + 5, middle - 8)
  context.lineWidth = 1.5
  context.lineCap = "round"
  context.lineJoin = "round"
  context.strokeStyle = context.fillStyle = isFailed ? palette.surface : color
  if (FILLED.has(node.family)) context.fill(signOf(node.family))
  else context.stroke(signOf(node.family))
  context.restore()

  let room = node.width - SIGN - 30
  if (now.flight > 0) {
    const text = count(now.flight)
    context.font = mono(10.5, 600)
    const width = Math.max(18, widthOf(context, text) + 11)
    const x = node.x + node.width - 10 - width
    context.fillStyle = palette["accent-soft"]
    context.beginPath()
    context.roundRect(x, middle - 9, width, 18, 9)
    context.fill()
    context.fillStyle = palette.accent
    context.textAlign = "center"
    context.fillText(text, x + width / 2, middle + 0.5)
    context.textAlign = "left"
    room -= width + 4
  }
  const text = left + SIGN + 9
  context.fillStyle = palette.text
  context.font = sans(13, 600)
  const title = titled(context, node, scene, room)
  if (!node.subtitle) context.fillText(title, text, middle + 0.5)
  else {
    context.fillText(title, text, middle - 7)
    const isTinted = isFailed || now.state === "throttled"
    context.fillStyle = isTinted ? palette.text : palette.faint
    context.font = sans(11)
    context.fillText(fitted(context, node.subtitle, room), text, middle + 8.5)
  }
  if (isDown) return
  context.fillStyle = isFailed || now.state === "throttled" ? palette.bad : palette.line
  withAlpha(context, isFailed || now.state === "throttled" ? 0.5 : 1, () =>
    context.fillRect(node.x + 0.5, node.y + drawing.head - 0.5, node.width - 1, 1),
  )
}

function paintPort(
  context: CanvasRenderingContext2D,
  node: DrawnNode,
  port: DrawnPort,
  scene: Scene,
  now: NodeNow,
  isInput: boolean,
): void {
  const { palette, drawing } = scene
  paintSocket(context, port, scene, isInput)
  context.font = port.is_side_packet ? `italic ${mono(10.5)}` : mono(10.5)
  const isTinted = now.state === "failed" || now.state === "throttled"
  context.fillStyle = isTinted ? palette.text : port.is_side_packet ? palette.faint : palette.muted
  if (drawing.direction === "down") {
    paintLabelInside(context, node, port, isInput)
    return
  }
  const facing = (isInput ? node.outputs : node.inputs).find(
    (other) => Math.abs(other.y - port.y) < 4,
  )
  const taken = facing ? widthOf(context, facing.label) + GAP : 0
  const room = Math.max(node.width * 0.35, node.width - 2 * PAD - taken)
  const label = fitted(context, port.label, room)
  if (!isInput) {
    context.textAlign = "right"
    context.fillText(label, node.x + node.width - PAD, port.y + 0.5)
    context.textAlign = "left"
    return
  }
  context.fillText(label, node.x + PAD, port.y + 0.5)
  const wire = drawing.wires.find(
    (one) => one.target === node.id && node.inputs[one.target_port] === port,
  )
  const here = wire && scene.now.wires.get(wire.id)
  if (here && here.queued > 0) paintQueue(context, port, here.queued, here.isFull, palette)
}

/** Under a port at the top or above one at the bottom: a node is as wide as its tags. */
function paintLabelInside(
  context: CanvasRenderingContext2D,
  node: DrawnNode,
  port: DrawnPort,
  isInput: boolean,
): void {
  context.textAlign = "center"
  const half = widthOf(context, port.label) / 2 + 6
  const x = Math.min(Math.max(port.x, node.x + half), node.x + node.width - half)
  context.fillText(port.label, x, port.y + (isInput ? 12 : -11.5))
  context.textAlign = "left"
}

/** How many packets wait before an input: beside its socket, above the line. */
function paintQueue(
  context: CanvasRenderingContext2D,
  port: DrawnPort,
  queued: number,
  isFull: boolean,
  palette: Palette,
): void {
  const text = isFull ? `${count(queued)} full` : count(queued)
  context.font = mono(10.5, 600)
  const width = Math.max(16, widthOf(context, text) + 9)
  const x = port.x - 8 - width
  const y = port.y - 13
  context.fillStyle = isFull ? palette["bad-soft"] : palette["warn-soft"]
  context.beginPath()
  context.roundRect(x, y - 8, width, 16, 8)
  context.fill()
  context.fillStyle = isFull ? palette.text : palette.warn
  context.fillText(text, x + (width - widthOf(context, text)) / 2, y + 0.5)
}

function paintSocket(
  context: CanvasRenderingContext2D,
  port: DrawnPort,
  { palette }: Scene,
  isInput: boolean,
): void {
  const { x, y } = port
  context.beginPath()
  if (port.is_side_packet) {
    context.moveTo(x - 4.5, y)
    context.lineTo(x, y - 4.5)
    context.lineTo(x + 4.5, y)
    context.lineTo(x, y + 4.5)
    context.closePath()
  } else context.roundRect(x - 4, y - 4, 8, 8, 2.5)
  const color = port.is_side_packet ? palette.side : palette["wire-live"]
  // A loop comes back here: the socket is filled.
  context.fillStyle = isInput && port.is_back_edge ? color : palette.surface
  context.fill()
  context.lineWidth = 1.2
  context.strokeStyle = color
  context.stroke()
}

function paintFoot(
  context: CanvasRenderingContext2D,
  node: DrawnNode,
  { palette, drawing }: Scene,
  now: NodeNow,
): void {
  const bottom = node.y + node.height
  const strip = drawing.direction === "down" && node.outputs.length ? STRIP : 0
  const y = bottom - strip - drawing.foot / 2 - 0.5
  const left = node.x + PAD
  const right = node.x + node.width - PAD
  if (drawing.foot) {
    if (now.why) {
      context.font = sans(11, 500)
      context.fillStyle = now.state === "waiting" ? palette.warn : palette.text
      context.fillText(fitted(context, now.why, right - left), left, y)
    } else if (now.rate > 0 || now.p50 !== null) {
      context.font = mono(10.5, 600)
      context.fillStyle = palette.text
      const rate = count(now.rate)
      context.fillText(rate, left, y)
      let x = left + widthOf(context, rate)
      context.font = mono(10.5)
      context.fillStyle = palette.faint
      context.fillText("/s", x, y)
      x += widthOf(context, "/s") + 9
      if (now.p50 !== null) {
        context.fillStyle = palette.muted
        const median = time(now.p50)
        context.fillText(median, x, y)
        x += widthOf(context, median)
      }
      if (now.p99 !== null && node.width >= WIDE) {
        const high = `p99 ${time(now.p99)}`
        context.fillStyle = palette.faint
        if (right - widthOf(context, high) > x + 8) {
          context.textAlign = "right"
          context.fillText(high, right, y)
          context.textAlign = "left"
        }
      }
    } else if (now.flight > 0) {
      context.font = sans(11)
      context.fillStyle = palette.muted
      context.fillText(node.family === "model" ? "waiting for tokens" : "running", left, y)
    }
  }
  paintBar(context, node, palette, now, BAR)
}

function paintBar(
  context: CanvasRenderingContext2D,
  node: DrawnNode,
  palette: Palette,
  now: NodeNow,
  height: number,
): void {
  const share = Math.min(1, now.busy)
  if (share < 0.004) return
  context.save()
  shape(context, node)
  context.clip()
  context.fillStyle =
    now.state === "failed" || now.state === "throttled"
      ? palette.bad
      : now.state === "waiting"
        ? palette.warn
        : kindColor(node, palette)
  context.fillRect(node.x, node.y + node.height - height, node.width * share, height)
  context.restore()
}

function paintFar(
  context: CanvasRenderingContext2D,
  node: DrawnNode,
  scene: Scene,
  now: NodeNow,
): void {
  const { palette, view } = scene
  context.fillStyle = palette.surface
  shape(context, node, RADIUS + 3)
  context.fill()
  const isBad = now.state === "failed" || now.state === "throttled"
  context.fillStyle = isBad
    ? palette.bad
    : now.state === "waiting"
      ? palette.warn
      : kindColor(node, palette)
  withAlpha(context, isBad ? 0.45 : now.state === "waiting" ? 0.3 : 0.13, () => context.fill())
  const [edge, alpha] = edgeColor(node, palette, now)
  context.strokeStyle = edge
  context.lineWidth = 1 / view.k
  withAlpha(context, alpha, () => context.stroke())
  if (now.state === "unknown") paintHatch(context, node, palette)
  paintBar(context, node, palette, now, 3 / view.k)
  const size = Math.min(34, 10.5 / view.k)
  context.font = sans(size, 600)
  context.fillStyle = palette.text
  context.textAlign = "center"
  context.fillText(
    titled(context, node, scene, node.width - 8),
    node.x + node.width / 2,
    node.y + node.height / 2,
  )
  context.textAlign = "left"
}

/** An input, output or side packet of the graph. */
function paintPin(
  context: CanvasRenderingContext2D,
  node: DrawnNode,
  scene: Scene,
  now: NodeNow,
): void {
  const { palette, view } = scene
  const isSide = node.kind === "side_input"
  const isHeld = now.state === "throttled"
  context.fillStyle = isHeld ? palette["bad-soft"] : isSide ? palette.raised : palette.surface
  shape(context, node, isSide ? 6 : node.height / 2)
  context.fill()
  context.strokeStyle = isHeld ? palette.bad : isSide ? palette.line : palette["kind-io"]
  context.lineWidth = Math.max(1.2, 1 / view.k)
  context.stroke()
  context.textAlign = "center"
  const x = node.x + node.width / 2
  const y = node.y + node.height / 2
  const isFar = view.k < FAR
  const size = isFar ? Math.min(24, 10.5 / view.k) : 12
  context.font = sans(size, 600)
  context.fillStyle = palette.text
  const room = node.width - 16
  const hasSecond = !isFar && (node.subtitle !== "" || isHeld)
  context.fillText(titled(context, node, scene, room), x, hasSecond ? y - 6.5 : y + 0.5)
  if (hasSecond) {
    context.font = isHeld ? sans(10.5, 500) : mono(10.5)
    context.fillStyle = isHeld ? palette.text : palette.faint
    context.fillText(fitted(context, isHeld ? now.why : node.subtitle, room), x, y + 8)
  }
  context.textAlign = "left"
}

/** A calculator that nobody has registered. */
function paintHatch(context: CanvasRenderingContext2D, node: DrawnNode, palette: Palette): void {
  context.save()
  shape(context, node)
  context.clip()
  context.strokeStyle = palette.line
  context.lineWidth = 1
  context.beginPath()
  for (let x = node.x - node.height; x < node.x + node.width; x += 9) {
    context.moveTo(x, node.y + node.height)
    context.lineTo(x + node.height, node.y)
  }
  context.stroke()
  context.restore()
}

function paintRing(context: CanvasRenderingContext2D, node: DrawnNode, scene: Scene): void {
  const { palette, view } = scene
  const gap = scene.focused === node.id ? 3.5 / view.k : 1.5 / view.k
  context.strokeStyle = palette.accent
  context.lineWidth = (scene.focused === node.id ? 2 : 1.5) / view.k
  context.beginPath()
  context.roundRect(
    node.x - gap,
    node.y - gap,
    node.width + 2 * gap,
    node.height + 2 * gap,
    isPin(node) && node.kind !== "side_input" ? node.height / 2 + gap : RADIUS + gap,
  )
  context.stroke()
}
