type Point = [number, number]

/** A straight piece of a line, and how long the line is up to it. */
export interface Piece {
  from: Point
  to: Point
  before: number
  length: number
}

/** The longest piece of a line of horizontal and vertical ones; undefined for less than two points. */
export function longestPiece(points: Point[]): Piece | undefined {
  let longest: Piece | undefined
  let before = 0
  for (let i = 1; i < points.length; i++) {
    const from = points[i - 1]!
    const to = points[i]!
    const length = Math.abs(to[0] - from[0]) + Math.abs(to[1] - from[1])
    if (!longest || length > longest.length) longest = { from, to, before, length }
    before += length
  }
  return longest
}
