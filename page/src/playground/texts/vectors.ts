/** The lines of a text that are not empty. */
export function linesOf(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
}

/** The cosines of all pairs of vectors; 0 for vectors of zeros. */
export function similarities(vectors: number[][]): number[][] {
  const lengths = vectors.map((vector) => Math.hypot(...vector))
  return vectors.map((one, row) =>
    vectors.map((other, column) => {
      const scale = lengths[row]! * lengths[column]!
      if (!scale) return 0
      return one.reduce((sum, value, at) => sum + value * (other[at] ?? 0), 0) / scale
    }),
  )
}
