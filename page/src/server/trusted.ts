// Trusted Types are enforced by the server's Content-Security-Policy: a script's address has to come
// from a policy. Ours lets addresses of this server through. TypeScript knows no Trusted Types yet.
interface PolicyFactory {
  createPolicy(
    name: string,
    rules: { createScriptURL(address: string): string },
  ): { createScriptURL(address: string): string }
}

function ownAddress(address: string): string {
  const url = new URL(address, document.baseURI)
  if (url.origin !== location.origin) throw new TypeError(`${url.origin} is not this server`)
  return url.href
}

const factory = (globalThis as { trustedTypes?: PolicyFactory }).trustedTypes
const policy = factory?.createPolicy("graphrt", { createScriptURL: ownAddress })

/** The address of a worker's script, as the Content-Security-Policy wants it. */
export function scriptAddress(address: string): string {
  return policy ? policy.createScriptURL(address) : ownAddress(address)
}
