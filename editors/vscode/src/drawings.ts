import * as vscode from "vscode"
import type { LanguageClient } from "vscode-languageclient/node"

interface Drawing {
  svg: string
  error: string
}

/** A panel beside the editor with the drawing of the graph that is edited. */
export class Drawings implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined
  private document: vscode.TextDocument | undefined
  private timer: NodeJS.Timeout | undefined
  private readonly changes: vscode.Disposable[]

  constructor(private readonly client: () => LanguageClient | undefined) {
    this.changes = [
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        if (document === this.document) this.drawSoon()
      }),
      vscode.window.onDidChangeActiveTextEditor((editor) => {
        if (this.panel !== undefined && editor?.document.languageId === "textproto") {
          this.document = editor.document
          this.drawSoon()
        }
      }),
    ]
  }

  dispose(): void {
    clearTimeout(this.timer)
    this.panel?.dispose()
    for (const each of this.changes) each.dispose()
  }

  async show(): Promise<void> {
    const editor = vscode.window.activeTextEditor
    if (editor?.document.languageId !== "textproto") {
      void vscode.window.showInformationMessage("Open a graph first: a .pbtxt file.")
      return
    }
    this.document = editor.document
    if (this.panel === undefined) {
      this.panel = vscode.window.createWebviewPanel(
        "graphrt.drawing",
        "Graph",
        { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
        { enableScripts: false, localResourceRoots: [] },
      )
      this.panel.onDidDispose(() => {
        this.panel = undefined
        this.document = undefined
      })
    }
    await this.draw()
  }

  private drawSoon(): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => void this.draw(), 300)
  }

  private async draw(): Promise<void> {
    const { document, panel } = this
    const client = this.client()
    if (document === undefined || panel === undefined || client === undefined) return
    const found = await client.sendRequest<Drawing>("graphrt/drawing", {
      uri: client.code2ProtocolConverter.asUri(document.uri),
    })
    // A graph that does not parse keeps its last drawing: the errors are in the editor.
    if (found.svg !== "" && panel === this.panel) panel.webview.html = page(found.svg)
  }
}

/** The drawing as an image, so that nothing in it can be more than a picture. */
function page(svg: string): string {
  const image = Buffer.from(svg, "utf-8").toString("base64")
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>body { padding: 0; } img { max-width: 100%; }</style>
<title>Graph</title>
</head>
<body><img alt="The drawing of the graph" src="data:image/svg+xml;base64,${image}"></body>
</html>`
}
