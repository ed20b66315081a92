// Compresses what Vite built, the same bytes on every machine, into the server's folder:
// index.html.gz, answered at `/`, and NAME.gz, answered at `/page/NAME`.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { gzipAsync } from "@gfx/zopfli"

const PAGE = dirname(dirname(fileURLToPath(import.meta.url)))
const BUILT = join(PAGE, "dist")
const SHIPPED = join(PAGE, "..", "servers", "page", "static")

rmSync(SHIPPED, { recursive: true, force: true })
mkdirSync(SHIPPED, { recursive: true })
let total = 0
for (const name of ["index.html", ...readdirSync(join(BUILT, "page")).sort()]) {
  const file = name === "index.html" ? join(BUILT, name) : join(BUILT, "page", name)
  // Zopfli finds some percent more than gzip -9, writes no time, and is the same on every machine.
  const packed = await gzipAsync(readFileSync(file), { numiterations: 10 })
  writeFileSync(join(SHIPPED, `${name}.gz`), packed)
  total += packed.length
  console.log(`${String(packed.length).padStart(8)}  ${name}`)
}
console.log(`${String(total).padStart(8)}  in all`)
