import type { Wire } from "../../graph_types"
import { longestPiece } from "./lines"
import type { Scene } from "./still"

/** A wire as a way to travel: the lengths at its corners. */
interface Track {
  wire: Wire
  at: number[]
  length: number
  /** Where the words of a loop stand, from and to, so that no dot runs over them. */
  words: [number, number]
  /** Where the first dot is, in drawing pixels from the beginning. */
  phase: number
  left: number
  top: number
  right: number
  bottom: number
}

/** Pixels of the screen per second, the same for all: only the spacing tells how many there are. */
const SPEED = 150
const LEAST_SPACING = 26
const WIDEST_SPACING = 460
const QUEUE_STEP = 9
const QUEUE_MOST = 9
const HALF_WORDS = 62
const HALF_LINE = 12

export class Packets {
  #tracks: Track[] = []

  setWires(wires: Wire[]): void {
    this.#tracks = wires
      .filter((wire) => !wire.is_side_packet && wire.points.length > 1)
      .map((wire, index) => {
        const at = [0]
        for (let i = 1; i < wire.points.length; i++) {
          const [ax, ay] = wire.points[i - 1]!
          const [bx, by] = wire.points[i]!
          at.push(at[i - 1]! + Math.abs(bx - ax) + Math.abs(by - ay))
        }
        const xs = wire.points.map((point) => point[0])
        const ys = wire.points.map((point) => point[1])
        return {
          wire,
          at,
          length: at.at(-1)!,
          // Wires side by side do not march in step; the golden ratio spreads them evenly.
          words: wordsOf(wire),
          phase: ((index * 0.618034) % 1) * WIDEST_SPACING,
          left: Math.min(...xs),
          top: Math.min(...ys),
          right: Math.max(...xs),
          bottom: Math.max(...ys),
        }
      })
  }

  /** Paint the packets `seconds` after the last frame; returns whether any of them moves. */
  paint(context: CanvasRenderingContext2D, scene: Scene, seconds: number): boolean {
    const { view, screen, palette } = scene
    const ratio = devicePixelRatio
    context.setTransform(1, 0, 0, 1, 0, 0)
    context.clearRect(0, 0, context.canvas.width, context.canvas.height)
    if (scene.isStill) return false
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    const moved = (SPEED * seconds) / view.k
    const held: Track[] = []
    let moves = false
    context.fillStyle = palette.packet
    context.beginPath()
    for (const track of this.#tracks) {
      const now = scene.now.wires.get(track.wire.id)
      if (!now) continue
      if (now.isFull) {
        held.push(track)
        continue
      }
      if (now.rate <= 0) continue
      moves = true
      const spacing = spacingOf(now.rate) / view.k
      track.phase = (track.phase + moved) % spacing
      if (
        track.right * view.k + view.x < 0 ||
        track.bottom * view.k + view.y < 0 ||
        track.left * view.k + view.x > screen.width ||
        track.top * view.k + view.y > screen.height
      )
        continue
      this.#dots(context, track, spacing, scene)
    }
    context.fill()
    if (held.length) this.#queues(context, held, scene)
    return moves
  }

  #dots(context: CanvasRenderingContext2D, track: Track, spacing: number, scene: Scene): void {
    const { view } = scene
    const radius = radiusOf(view.k)
    let corner = 1
    const [from, to] = track.words
    for (let s = track.phase; s < track.length; s += spacing) {
      if (s > from && s < to) continue
      while (corner < track.at.length - 1 && track.at[corner]! < s) corner++
      const [ax, ay] = track.wire.points[corner - 1]!
      const [bx, by] = track.wire.points[corner]!
      const start = track.at[corner - 1]!
      const share = (s - start) / Math.max(1e-6, track.at[corner]! - start)
      const x = (ax + (bx - ax) * share) * view.k + view.x
      const y = (ay + (by - ay) * share) * view.k + view.y
      context.moveTo(x + radius, y)
      context.arc(x, y, radius, 0, 2 * Math.PI)
    }
  }

  /** Packets that cannot go on stand before the socket, as a queue does. */
  #queues(context: CanvasRenderingContext2D, tracks: Track[], scene: Scene): void {
    const { view, palette } = scene
    const radius = radiusOf(view.k)
    context.fillStyle = palette.bad
    context.beginPath()
    for (const track of tracks) {
      const step = QUEUE_STEP / view.k
      for (let i = 0; i < QUEUE_MOST; i++) {
        const s = track.length - (10 + i * QUEUE_STEP) / view.k
        if (s < step) break
        let corner = 1
        while (corner < track.at.length - 1 && track.at[corner]! < s) corner++
        const [ax, ay] = track.wire.points[corner - 1]!
        const [bx, by] = track.wire.points[corner]!
        const start = track.at[corner - 1]!
        const share = (s - start) / Math.max(1e-6, track.at[corner]! - start)
        const x = (ax + (bx - ax) * share) * view.k + view.x
        const y = (ay + (by - ay) * share) * view.k + view.y
        context.moveTo(x + radius, y)
        context.arc(x, y, radius, 0, 2 * Math.PI)
      }
    }
    context.fill()
  }
}

/** The middle of the longest piece of a loop, where its turns are written. */
function wordsOf(wire: Wire): [number, number] {
  const piece = wire.is_loop ? longestPiece(wire.points) : undefined
  if (!piece) return [0, 0]
  const isAcross = piece.from[1] === piece.to[1]
  const middle = piece.before + piece.length / 2
  const half = isAcross ? HALF_WORDS : HALF_LINE
  return [middle - half, middle + half]
}

/** Pixels of the screen between two dots: halved whenever the rate doubles twice over. */
function spacingOf(rate: number): number {
  return Math.max(
    LEAST_SPACING,
    Math.min(WIDEST_SPACING, WIDEST_SPACING / (1 + Math.log2(1 + rate))),
  )
}

function radiusOf(zoom: number): number {
  return Math.max(1.3, Math.min(2.6, 2.4 * zoom))
}
