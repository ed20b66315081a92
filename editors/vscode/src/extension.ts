import * as path from "node:path"
import * as vscode from "vscode"
import { LanguageClient, type ServerOptions } from "vscode-languageclient/node"
import { Drawings } from "./drawings"

let client: LanguageClient | undefined

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const drawings = new Drawings(() => client)
  context.subscriptions.push(
    drawings,
    vscode.commands.registerCommand("graphrt.showDrawing", () => drawings.show()),
    vscode.commands.registerCommand("graphrt.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("graphrt")) void restart()
    }),
  )
  await start()
}

export async function deactivate(): Promise<void> {
  await client?.stop()
}

async function restart(): Promise<void> {
  await client?.stop()
  client = undefined
  await start()
}

async function start(): Promise<void> {
  client = new LanguageClient("graphrt", "graphrt", serverOptions(), {
    documentSelector: [{ language: "textproto", scheme: "file" }],
  })
  try {
    await client.start()
  } catch {
    client = undefined
    const answer = await vscode.window.showErrorMessage(
      "graphrt's language server does not start: pip install 'graphrt[editor]', and name its command in the settings.",
      "Settings",
    )
    if (answer === "Settings") {
      await vscode.commands.executeCommand("workbench.action.openSettings", "graphrt.command")
    }
  }
}

function serverOptions(): ServerOptions {
  const settings = vscode.workspace.getConfiguration("graphrt")
  const [command = "graphrt", ...words] = settings.get<string[]>("command", ["graphrt"])
  const calculators = settings.get<string[]>("calculators", [])
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath
  // A bare name is looked up in PATH; a path is relative to the workspace.
  const isPath = command.includes("/") || command.includes("\\")
  return {
    command: isPath && folder !== undefined ? path.resolve(folder, command) : command,
    args: [
      ...words,
      "language-server",
      ...calculators.flatMap((name) => ["--calculators", name]),
    ],
    options: folder === undefined ? {} : { cwd: folder },
  }
}
