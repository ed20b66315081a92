import type { GraphDrawing } from "../graph_types"
import { type Palette, readPalette } from "../look/palette"
import { Packets } from "./paint/packets"
import { paintStill, type Scene } from "./paint/still"
import { loadFaces, sharedBeginnings } from "./paint/text"
import { GraphNow } from "./states"
import { begun, fit, READABLE, revealed, type Size, type Viewport, zoomed } from "./viewport"

const GLIDE = 220
const NOTHING: GraphDrawing = {
  title: "",
  direction: "right",
  width: 1,
  height: 1,
  head: 50,
  foot: 30,
  nodes: [],
  wires: [],
  frames: [],
  junctions: [],
  closed: [],
  has_minimap: false,
}

/**
 * Two canvases: one for all that stands, painted when something has changed, and one for packets,
 * painted in every frame while any of them travels.
 */
export class Stage implements Scene {
  drawing = NOTHING
  now = new GraphNow()
  palette: Palette = readPalette()
  view: Viewport = { x: 0, y: 0, k: 1 }
  screen: Size = { width: 1, height: 1 }
  selected = ""
  focused = ""
  hovered = ""
  /** Ids of the nodes that are searched for; null if none are. */
  found: ReadonlySet<string> | null = null
  /** The first characters of titles that others begin with too. */
  shared: ReadonlyMap<string, number> = new Map()
  isLoaded = true
  isStill: boolean
  /** The person has moved or zoomed, so a new size of the screen changes nothing. */
  isMoved = false

  readonly #still: CanvasRenderingContext2D
  readonly #moving: CanvasRenderingContext2D
  readonly #packets = new Packets()
  readonly #onView: (view: Viewport) => void
  readonly #calm = matchMedia("(prefers-reduced-motion: reduce)")
  #glide: { from: Viewport; to: Viewport; began: number } | null = null
  #frame = 0
  #before = 0
  #isDirty = true

  constructor(
    still: HTMLCanvasElement,
    moving: HTMLCanvasElement,
    onView: (view: Viewport) => void,
  ) {
    this.#still = still.getContext("2d", { alpha: false })!
    this.#moving = moving.getContext("2d")!
    this.#onView = onView
    this.isStill = this.#calm.matches
    this.#calm.addEventListener("change", this.#calmed)
    void loadFaces().then(() => this.changed())
  }

  destroy(): void {
    cancelAnimationFrame(this.#frame)
    this.#calm.removeEventListener("change", this.#calmed)
  }

  readonly #calmed = (): void => {
    this.isStill = this.#calm.matches
    this.changed()
  }

  setDrawing(drawing: GraphDrawing): void {
    this.drawing = drawing
    this.shared = sharedBeginnings(drawing.nodes.map(({ title }) => title))
    this.#packets.setWires(drawing.wires)
    this.changed()
  }

  resize(screen: Size): void {
    this.screen = screen
    for (const { canvas } of [this.#still, this.#moving]) {
      canvas.width = Math.round(screen.width * devicePixelRatio)
      canvas.height = Math.round(screen.height * devicePixelRatio)
    }
    if (this.found) this.show(this.focused)
    else if (!this.isMoved) this.begin()
    this.#isDirty = true
    // A resized canvas is empty until it is painted: not in the next frame, but in this one.
    this.#paint(performance.now())
  }

  themeChanged(): void {
    this.palette = readPalette()
    this.changed()
  }

  /** Paint in the next frame. */
  changed(): void {
    this.#isDirty = true
    this.#request()
  }

  begin(): void {
    this.#goTo(begun(this.drawing, this.screen), false)
  }

  fitAll(): void {
    this.isMoved = false
    this.#goTo(fit(this.drawing, this.screen), true)
  }

  zoom(factor: number, x = this.screen.width / 2, y = this.screen.height / 2): void {
    this.isMoved = true
    this.#glide = null
    this.setView(zoomed(this.view, factor, x, y))
  }

  pan(dx: number, dy: number): void {
    this.isMoved = true
    this.#glide = null
    this.setView({ ...this.view, x: this.view.x + dx, y: this.view.y + dy })
  }

  /** Bring a point of the drawing to the middle of the screen. */
  centre(x: number, y: number): void {
    this.isMoved = true
    this.#glide = null
    const { k } = this.view
    this.setView({ k, x: this.screen.width / 2 - x * k, y: this.screen.height / 2 - y * k })
  }

  /** Bring a node to the middle of the screen, large enough to be read. */
  show(id: string): void {
    const node = this.drawing.nodes.find((one) => one.id === id)
    if (!node) return
    this.isMoved = true
    const k = Math.max(this.view.k, READABLE)
    const x = this.screen.width / 2 - (node.x + node.width / 2) * k
    this.#goTo({ k, x, y: this.screen.height / 2 - (node.y + node.height / 2) * k }, true)
  }

  reveal(id: string): void {
    const node = this.drawing.nodes.find((one) => one.id === id)
    if (node) this.#goTo(revealed(this.view, node, this.screen), true)
  }

  setView(view: Viewport): void {
    this.view = view
    this.#onView(view)
    this.changed()
  }

  #goTo(to: Viewport, glides: boolean): void {
    const isSame = to.x === this.view.x && to.y === this.view.y && to.k === this.view.k
    if (isSame) return
    if (!glides || this.isStill) {
      this.#glide = null
      this.setView(to)
      return
    }
    this.#glide = { from: this.view, to, began: performance.now() }
    this.#request()
  }

  #request(): void {
    if (!this.#frame) this.#frame = requestAnimationFrame(this.#onFrame)
  }

  readonly #onFrame = (time: number): void => {
    this.#frame = 0
    if (this.#glide) {
      const { from, to, began } = this.#glide
      const share = Math.min(1, Math.max(0, (time - began) / GLIDE))
      const eased = 1 - (1 - share) ** 3
      const between = (a: number, b: number) => a + (b - a) * eased
      if (share === 1) this.#glide = null
      this.view = {
        x: between(from.x, to.x),
        y: between(from.y, to.y),
        k: between(from.k, to.k),
      }
      this.#onView(this.view)
      this.#isDirty = true
    }
    this.#paint(time)
  }

  #paint(time: number): void {
    if (this.#isDirty) paintStill(this.#still, this)
    this.#isDirty = false
    const seconds = Math.min(0.1, (time - this.#before) / 1000)
    this.#before = time
    const moves = this.#packets.paint(this.#moving, this, seconds)
    if (moves || this.#glide) this.#request()
  }
}
