import svelte from "eslint-plugin-svelte"
import typescript from "typescript-eslint"
import config from "./svelte.config.js"

export default typescript.config(
  { ignores: ["dist/", "node_modules/", "src/live_types.ts", "src/graph_types.ts"] },
  ...typescript.configs.recommended,
  ...svelte.configs.recommended,
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: {
      parserOptions: {
        parser: typescript.parser,
        extraFileExtensions: [".svelte"],
        svelteConfig: config,
      },
    },
  },
  {
    rules: {
      // TypeScript knows what is defined.
      "no-undef": "off",
      // The Content-Security-Policy refuses style="..."; style:name={...} goes through the CSSOM.
      "no-restricted-syntax": [
        "error",
        {
          selector: "SvelteAttribute[key.name='style']",
          message: "Use style:name={...} or a class.",
        },
      ],
      "svelte/no-at-html-tags": "error",
      // Whole values are replaced, in $state.raw.
      "svelte/prefer-svelte-reactivity": "off",
      // Links are fragments of this document.
      "svelte/no-navigation-without-resolve": "off",
    },
  },
)
