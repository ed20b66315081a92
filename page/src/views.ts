import type { Component } from "svelte"
import type { Route } from "./shell/route.svelte"

/** A view of the page: its place in the fragment, its title, and its code, loaded when it is first shown. */
export interface View {
  id: string
  title: string
  load: () => Promise<{ default: Component<{ route: Route }> | Component<Record<string, never>> }>
  /** Shown only where the server lets clients check and try graphs. */
  needsEdit?: boolean
}

export const VIEWS: View[] = [
  { id: "servables", title: "Servables", load: () => import("./servables/Servables.svelte") },
  { id: "graph", title: "Graph", load: () => import("./graph/Graph.svelte") },
  { id: "playground", title: "Playground", load: () => import("./playground/Playground.svelte") },
  { id: "requests", title: "Requests", load: () => import("./requests/Requests.svelte") },
  { id: "metrics", title: "Metrics", load: () => import("./metrics/Metrics.svelte") },
  { id: "editor", title: "Editor", load: () => import("./editor/Editor.svelte"), needsEdit: true },
]
