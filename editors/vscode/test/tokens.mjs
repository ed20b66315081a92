// Tokenizes a graph as VS Code does, and prints each token with its innermost scope.
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"

const require = createRequire(import.meta.url)
const oniguruma = require("vscode-oniguruma")
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate")

await oniguruma.loadWASM(readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")))
const file = new URL("../syntaxes/textproto.tmLanguage.json", import.meta.url)
const registry = new Registry({
  onigLib: Promise.resolve({
    createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
    createOnigString: (text) => new oniguruma.OnigString(text),
  }),
  loadGrammar: async () => parseRawGrammar(readFileSync(file, "utf-8"), "textproto.json"),
})
const grammar = await registry.loadGrammar("source.textproto")
const text = process.argv[2] === undefined ? "node { calculator: \"A\" }" : readFileSync(process.argv[2], "utf-8")
let stack = INITIAL
const found = []
for (const line of text.split("\n")) {
  const result = grammar.tokenizeLine(line, stack)
  for (const { startIndex, endIndex, scopes } of result.tokens) {
    const word = line.slice(startIndex, endIndex)
    if (word.trim() !== "" && scopes.length > 1) found.push([word, scopes.at(-1).replace(/\.textproto$/, "")])
  }
  stack = result.ruleStack
}
console.log(JSON.stringify(found))
