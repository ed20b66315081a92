import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"

/** Licences that the page may ship. An expression with OR is listed with the one that is chosen. */
const ALLOWED = new Map([
  ["MIT", "MIT"],
  ["ISC", "ISC"],
  ["BSD-3-Clause", "BSD-3-Clause"],
  ["Apache-2.0", "Apache-2.0"],
  ["OFL-1.1", "OFL-1.1"],
  ["(MPL-2.0 OR Apache-2.0)", "Apache-2.0"],
])
/** Packages whose files are taken into src/, changed: see tools/fonts.js. */
const TAKEN = ["@fontsource-variable/inter", "@fontsource-variable/jetbrains-mono"]
const LICENSE_FILE = /^(license|licence|copying|ofl)(\.(md|txt))?$/i

/**
 * Vite's plugin that writes the licences of all packages in the bundle, and fails on one that is
 * not on the list or has no text.
 *
 * @param {string} file name of the asset, and of the copy beside package.json
 * @returns {import("vite").Plugin}
 */
export function notices(file) {
  /** @type {Map<string, string>} */
  const folders = new Map()
  let root = ""
  return {
    name: "graphrt:notices",
    apply: "build",
    configResolved(config) {
      root = config.root
      for (const name of TAKEN) folders.set(name, join(root, "node_modules", name))
    },
    // Style sheets and fonts are no modules of a chunk in the end, so all that is loaded counts.
    load(id) {
      remember(folders, id)
      return null
    },
    generateBundle(_options, bundle) {
      for (const output of Object.values(bundle)) {
        const ids = output.type === "chunk" ? output.moduleIds : output.originalFileNames
        for (const id of ids) remember(folders, id.startsWith("/") ? id : join(root, id))
      }
      const text = written(folders, (problem) => this.error(problem))
      writeFileSync(join(root, file), text)
      this.emitFile({ type: "asset", fileName: `page/${file}`, source: text })
    },
  }
}

/** @param {Map<string, string>} folders @param {string} id */
function remember(folders, id) {
  const path = id.replace(/^\0+/, "").replace(/\?.*$/, "")
  const at = path.lastIndexOf("/node_modules/")
  if (at < 0) return
  let folder = dirname(path)
  while (folder.length > at + "/node_modules/".length) {
    const own = join(folder, "package.json")
    // Folders within a package have a package.json without a name, for their module format.
    if (existsSync(own)) {
      const name = JSON.parse(readFileSync(own, "utf8")).name
      if (name) folders.set(name, folder)
      if (name) return
    }
    folder = dirname(folder)
  }
}

/**
 * The text of all notices. Packages with the same licence but for its holders share its text.
 *
 * @param {Map<string, string>} folders
 * @param {(problem: string) => void} fail
 */
function written(folders, fail) {
  /** @type {Map<string, { heads: string[], text: string }>} */
  const groups = new Map()
  for (const [name, folder] of [...folders].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
    const licence = ALLOWED.get(about.license)
    if (!licence)
      fail(`${name}: its licence ${about.license} is not on the list of tools/notices.js`)
    const found = readdirSync(folder).find((entry) => LICENSE_FILE.test(entry))
    const text = found ? readFileSync(join(folder, found), "utf8") : standardText(about)
    if (!text) fail(`${name}: no text of its licence in ${relative(process.cwd(), folder)}`)
    const lines = text.replace(/\r\n?/g, "\n").trim().split("\n")
    const holders = lines.filter((line) => /^\W*copyright\b/i.test(line)).map((line) => line.trim())
    const rest = lines
      .filter((line) => !/^\W*copyright\b/i.test(line))
      .join("\n")
      .trim()
    const key = rest
      .replace(/^.*\blicen[sc]e\b.*\n/i, "")
      .replace(/\s+/g, " ")
      .trim()
    const group = groups.get(key) ?? { heads: [], text: rest }
    group.heads.push([`${name} ${about.version} (${licence})`, ...holders].join("\n  "))
    groups.set(key, group)
  }
  const intro =
    "The page that graphrt serves contains the packages below, under the licences below.\n"
  const parts = [...groups.values()].map(
    ({ heads, text }) => `${"-".repeat(80)}\n${heads.join("\n")}\n\n${text}\n`,
  )
  return [intro, ...parts].join("\n")
}

/**
 * The text of the MIT licence for a package that names it and its author, and has no file of it.
 *
 * @param {{ license: string, author?: string | { name: string } }} about
 */
function standardText({ license, author }) {
  const holder = typeof author === "object" ? author.name : author
  if (license !== "MIT" || !holder) return ""
  return `MIT License

Copyright (c) ${holder.replace(/ *<.*>/, "")}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`
}
