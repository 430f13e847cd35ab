/** The commands of the palette; each asks the server for what its own commands do. */

import * as vscode from "vscode";
import { ExecuteCommandRequest } from "vscode-languageclient/node";
import { showDoctor } from "./doctor";
import { explainRule } from "./explain";
import { log } from "./log";
import { ResultPanel } from "./panel/panel";
import { Server } from "./server";

const DEVICES: vscode.QuickPickItem[] = [
    { label: "auto", description: "a real GPU that has room, else a simulated one, else the CPU" },
    { label: "cuda", description: "a real GPU" },
    { label: "sim", description: "a simulated GPU in host memory" },
    { label: "cpu", description: "the CPU" },
];

export function registerCommands(context: vscode.ExtensionContext, server: Server, panel: ResultPanel): void {
    const register = (name: string, action: () => unknown): void => {
        context.subscriptions.push(vscode.commands.registerCommand(`drygrad.${name}`, action));
    };
    register("dryRunFunction", () => execute(server, "drygrad.dryRun", atCursor()));
    register("dryRunFile", () => execute(server, "drygrad.dryRun", wholeFile()));
    register("cancelRuns", () => execute(server, "drygrad.cancel", { runId: null }));
    register("pinFunction", () => execute(server, "drygrad.pin", atCursor()));
    register("unpinFunction", () => execute(server, "drygrad.unpin", atCursor()));
    register("clearResults", () => execute(server, "drygrad.clear", {}));
    register("restartRunWorkers", () => execute(server, "drygrad.restartWorkers", {}));
    register("showResult", () => panel.show());
    register("selectDevice", selectDevice);
    register("explainRule", () => explainRule(server));
    register("restartServer", () => server.restart());
    register("showLogs", () => log.show());
    register("showDoctor", () => showDoctor(server));
}

/** Ask the server to do something; say why if it cannot. */
export async function execute(server: Server, command: string, argument: unknown): Promise<unknown> {
    const client = server.running;
    if (!client) {
        void vscode.window.showWarningMessage("drygrad is not running. Use “drygrad: Restart Server”, or see its log.");
        return null;
    }
    if (argument === null) {
        void vscode.window.showInformationMessage("Open a Python file and place the cursor in a function first.");
        return null;
    }
    try {
        return await client.sendRequest(ExecuteCommandRequest.type, { command, arguments: [argument] });
    } catch (error) {
        void vscode.window.showWarningMessage(error instanceof Error ? error.message : String(error));
        return null;
    }
}

function atCursor(): object | null {
    const editor = pythonEditor();
    if (!editor) {
        return null;
    }
    const { line, character } = editor.selection.active;
    const { uri, version } = editor.document;
    return { uri: uri.toString(), version, qualname: null, position: { line, character }, device: null };
}

function wholeFile(): object | null {
    const document = pythonEditor()?.document;
    return document
        ? { uri: document.uri.toString(), version: document.version, qualname: null, position: null, device: null }
        : null;
}

function pythonEditor(): vscode.TextEditor | null {
    const editor = vscode.window.activeTextEditor;
    return editor?.document.languageId === "python" ? editor : null;
}

async function selectDevice(): Promise<void> {
    const configuration = vscode.workspace.getConfiguration("drygrad");
    const current = configuration.get<string>("device") ?? "auto";
    const items = DEVICES.map((item) => (item.label === current ? { ...item, detail: "used now" } : item));
    const chosen = await vscode.window.showQuickPick(items, { title: "Where dry runs are executed", matchOnDescription: true });
    if (chosen) {
        await configuration.update("device", chosen.label, vscode.ConfigurationTarget.Global);
    }
}
