/** The doctor's report, as a document that can be copied into a message. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import * as vscode from "vscode";
import { NEUTRAL } from "./python/neutral";
import { Server } from "./server";

const run = promisify(execFile);
const PATIENCE_MS = 60_000;

export async function showDoctor(server: Server): Promise<void> {
    const command = await server.cliCommand();
    if (!command) {
        return;
    }
    const [python, ...start] = command.command;
    const options = command.interpreter ? ["--python", command.interpreter] : [];
    const report = await vscode.window.withProgress(
        { location: vscode.ProgressLocation.Window, title: vscode.l10n.t("drygrad: examining this machine") },
        () => output(python ?? "", [...start, "doctor", ...options, ...place()]),
    );
    const document = await vscode.workspace.openTextDocument({ content: report, language: "plaintext" });
    await vscode.window.showTextDocument(document, { preview: true });
}

/** The project that the report is about: that of the file at hand, else of the first folder. */
function place(): string[] {
    const file = vscode.window.activeTextEditor?.document.uri;
    const uri = file?.scheme === "file" ? file : vscode.workspace.workspaceFolders?.[0]?.uri;
    return uri ? [uri.fsPath] : [];
}

async function output(command: string, args: string[]): Promise<string> {
    try {
        return (await run(command, args, { ...NEUTRAL, timeout: PATIENCE_MS })).stdout;
    } catch (error) {
        const { stdout, stderr, message } = error as { stdout?: string; stderr?: string; message: string };
        return [stdout, stderr].filter(Boolean).join("\n") || message;
    }
}
