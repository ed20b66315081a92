/**
 * The place in the page, from the fragment: `#/graph/guard?node=small` is the view `graph` with the
 * parts `["guard"]`. The path of the address stays the server's, so no proxy has to rewrite it.
 */
export interface Route {
  view: string
  parts: string[]
  query: URLSearchParams
}

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export function parseFragment(fragment: string): Route {
  const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split(/\?(.*)/s, 2)
  const [view = "", ...parts] = path.split("/").map(unescaped)
  return { view, parts: parts.filter((part) => part !== ""), query: new URLSearchParams(query) }
}

/** The address of a place: `href("graph", ["guard"], { node: "small" })`. */
export function href(
  view: string,
  parts: string[] = [],
  query: Record<string, string> = {},
): string {
  const path = [view, ...parts].map(encodeURIComponent).join("/")
  const rest = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""))
  return rest.size ? `#/${path}?${rest}` : `#/${path}`
}

const place = $state({ route: parseFragment(location.hash) })
const lastAddresses = $state<Record<string, string>>({})
addEventListener("hashchange", follow)
follow()

function follow(): void {
  place.route = parseFragment(location.hash)
  lastAddresses[place.route.view] = location.hash
}

/** Where a view was left: its chat, graph or draft. */
export function lastAddress(view: string): string {
  return lastAddresses[view] ?? href(view)
}

/** The present route; reactive. */
export function route(): Route {
  return place.route
}

export function goTo(address: string): void {
  location.hash = address
}

/** Change the address without a new entry in the browser's history. */
export function replaceAddress(address: string): void {
  history.replaceState(null, "", address)
  follow()
}
