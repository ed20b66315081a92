// Lays graphs out by elkjs: JSON lists of ELK's graphs in, and laid out, by standard input and output.
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"

const ELK = createRequire(`${process.cwd()}/`)("elkjs")
const elk = new ELK()
const laid = []
for (const graph of JSON.parse(readFileSync(0, "utf8"))) laid.push(await elk.layout(graph))
process.stdout.write(JSON.stringify(laid))
