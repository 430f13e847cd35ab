/** The commands of the palette; each asks the server for what its own commands do. */

import * as vscode from "vscode";
import { showDoctor } from "./doctor";
import { execute } from "./execute";
import { explainRule } from "./explain";
import { selectLaunch } from "./launches";
import { log } from "./log";
import { asTarget, more } from "./more";
import { ResultPanel } from "./panel/panel";
import { Server } from "./server";

const DEVICES: vscode.QuickPickItem[] = [
    { label: "auto", description: vscode.l10n.t("your GPU if it has free memory, else a simulated one, else the CPU") },
    { label: "cuda", description: vscode.l10n.t("your GPU") },
    { label: "sim", description: vscode.l10n.t("a GPU simulated in host memory: finds device errors, runs at CPU speed") },
    { label: "cpu", description: vscode.l10n.t("the CPU: device errors are not found") },
];

export function registerCommands(context: vscode.ExtensionContext, server: Server, panel: ResultPanel): void {
    const register = (name: string, action: (argument?: unknown) => unknown): void => {
        context.subscriptions.push(vscode.commands.registerCommand(`drygrad.${name}`, action));
    };
    register("dryRunFunction", () => execute(server, "drygrad.dryRun", atCursor()));
    register("dryRunFile", () => execute(server, "drygrad.dryRun", wholeFile()));
    register("cancelRuns", () => execute(server, "drygrad.cancel", { runId: null }));
    register("pinFunction", () => execute(server, "drygrad.pin", atCursor()));
    register("unpinFunction", () => execute(server, "drygrad.unpin", atCursor()));
    register("clearResults", () => execute(server, "drygrad.clear", {}));
    register("restartRunWorkers", () => execute(server, "drygrad.restartWorkers", {}));
    register("showResult", (target) => panel.show(asTarget(target)));
    register("more", (target) => more(server, panel, asTarget(target)));
    register("selectDevice", selectDevice);
    register("selectLaunch", () => selectLaunch(server));
    register("explainRule", (code) => explainRule(server, code));
    register("restartServer", () => server.restart());
    register("showLogs", () => log.show());
    register("showDoctor", () => showDoctor(server));
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
    const items = DEVICES.map((item) => (item.label === current ? { ...item, detail: vscode.l10n.t("current") } : item));
    const chosen = await vscode.window.showQuickPick(items, { title: vscode.l10n.t("Where should dry runs execute?"), matchOnDescription: true });
    if (chosen) {
        await configuration.update("device", chosen.label, vscode.ConfigurationTarget.Global);
    }
}
