/** The address that a person is asked about before it is opened; "" for none. */
export const asked = $state({ address: "" })

/** Handle a click in a model's answer: links show their address first. */
export function askBeforeLinks(event: MouseEvent): void {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null
  if (!(link instanceof HTMLAnchorElement)) return
  event.preventDefault()
  asked.address = link.href
}
