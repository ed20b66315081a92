import type { Component } from "svelte"
import type { Route } from "./shell/route.svelte"

/** A view of the page: its place in the fragment, its title, and its code, loaded when it is first shown. */
export interface View {
  id: string
  title: string
  /** The path of its sign on a grid of 16, for phones. */
  sign: string
  load: () => Promise<{ default: Component<{ route: Route }> | Component<Record<string, never>> }>
  /** Shown only where the server lets clients check and try graphs. */
  needsEdit?: boolean
}

export const VIEWS: View[] = [
  {
    id: "servables",
    title: "Servables",
    sign: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
    load: () => import("./servables/Servables.svelte"),
  },
  {
    id: "graph",
    title: "Graph",
    sign: "M2 6h4v4H2zM10 2h4v4h-4zM10 10h4v4h-4zM6 8h2V4h2M8 8v4h2",
    load: () => import("./graph/Graph.svelte"),
  },
  {
    id: "playground",
    title: "Playground",
    sign: "M2.5 3h11v8h-6l-3 2.500V11h-2z",
    load: () => import("./playground/Playground.svelte"),
  },
  {
    id: "requests",
    title: "Requests",
    sign: "M3 4h10M3 8h10M3 12h6",
    load: () => import("./requests/Requests.svelte"),
  },
  {
    id: "metrics",
    title: "Metrics",
    sign: "M2.5 13V8M6.500 13V3M10.500 13V6M14 13v-3",
    load: () => import("./metrics/Metrics.svelte"),
  },
  {
    id: "editor",
    title: "Editor",
    sign: "M3 13l1-3.500L11 2.500 13.500 5 6.500 12z",
    load: () => import("./editor/Editor.svelte"),
    needsEdit: true,
  },
]
