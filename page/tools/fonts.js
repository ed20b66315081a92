// Makes src/look/fonts: the letters and weights that the page uses, of the fonts in node_modules.
// The results are committed, so that a build needs nothing of this: `npm run fonts`.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import subsetFont from "subset-font"

const FONTS = "node_modules/@fontsource-variable"
const OUT = "src/look/fonts"
const ASCII = Array.from({ length: 0x7f - 0x20 }, (_, i) => String.fromCodePoint(0x20 + i)).join("")
// And the signs that the page itself writes. Other letters come from the system's font.
const LETTERS = `${ASCII}–—‘’“”…·°•−×→←↑↓↻µ`

mkdirSync(OUT, { recursive: true })
for (const [name, out, weights] of [
  ["inter/files/inter-latin-wght-normal.woff2", "inter.woff2", { min: 400, max: 650 }],
  ["jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2", "mono.woff2", 450],
]) {
  const made = await subsetFont(readFileSync(`${FONTS}/${name}`), LETTERS, {
    targetFormat: "woff2",
    variationAxes: { wght: weights },
    // Without other forms of the same letters, and ligatures.
    noLayoutClosure: true,
  })
  writeFileSync(`${OUT}/${out}`, made)
  console.log(`${out}: ${made.length} bytes`)
}
