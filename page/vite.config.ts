import { svelte } from "@sveltejs/vite-plugin-svelte"
import { defineConfig } from "vitest/config"
import { notices } from "./tools/notices.js"

// A server to develop against: `GRAPHRT=http://127.0.0.1:8000 npm run dev`.
const server = process.env.GRAPHRT ?? "http://127.0.0.1:8000"

export default defineConfig({
  // Everything is found from the document, so the page works behind any prefix.
  base: "./",
  plugins: [svelte(), notices("THIRD_PARTY_NOTICES.txt")],
  build: {
    target: "es2022",
    // Reading a signal is a subscription: no read may be left out.
    rolldownOptions: { treeshake: { propertyReadSideEffects: "always" } },
    assetsDir: "page",
    // A data: URL of a script or a font would need a wider Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // One style sheet is smaller than one for each view.
    cssCodeSplit: false,
    // Sizes are checked on the built files, as they are shipped (tests/page).
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  server: { proxy: { "/v1": server, "/v2": server, "/v3": server, "/metrics": server } },
  test: { include: ["tests/**/*.test.ts"] },
})
