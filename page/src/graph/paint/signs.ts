import type { DrawnNode } from "../../graph_types"

type Family = DrawnNode["family"]

/** The sign of each family on a grid of 16: a shape, never a letter. */
const SIGNS: Record<Family, string> = {
  model: "M8 2l1.600 4.400L14 8l-4.400 1.600L8 14l-1.600-4.400L2 8l4.400-1.600z",
  image: "M2.500 3.500h11v9h-11zM2.500 11l3-3 2.500 2.500 2-1.500 3.500 2.500M10.500 6.300h.01",
  tensor: "M3 3h4v4H3zM9 3h4v4H9zM3 9h4v4H3zM9 9h4v4H9z",
  flow: "M2 8h4.500l3.500-4h4M6.500 8l3.500 4h4",
  own: "M6 4.500L2.500 8 6 11.500M10 4.500L13.500 8 10 11.500",
  io: "M2 8h8.500M7.500 5l3 3-3 3M13.500 3.500v9",
  session: "M3 4.500c0-1.600 10-1.600 10 0v7c0 1.600-10 1.600-10 0zM3 4.500c0 1.600 10 1.600 10 0",
  subgraph: "M2.500 3h4v4h-4zM9.500 9h4v4h-4zM6.500 5h3a2 2 0 0 1 2 2v2",
}
export const FILLED: ReadonlySet<Family> = new Set(["model"])

const paths = new Map<Family, Path2D>()

export function signOf(family: Family): Path2D {
  let path = paths.get(family)
  if (!path) {
    path = new Path2D(SIGNS[family])
    paths.set(family, path)
  }
  return path
}

/** The name of a family's color in the palette. */
export function colorName(family: Family): `kind-${Exclude<Family, "subgraph">}` {
  return family === "subgraph" ? "kind-session" : `kind-${family}`
}
