/** What the suites share: the extension, files in its workspace, what it shows of them, and waiting. */

import { strict as assert } from "node:assert";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Api } from "../src/extension";
import type { Status } from "../src/protocol";

const PATIENCE_MS = 120_000;
const PAUSE_MS = 50;
const WATCH_MS = 500;

export const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Wait until something holds, and return it. */
export async function until<T>(look: () => T | Promise<T>, what: string): Promise<NonNullable<T>> {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
        const seen = await look();
        if (seen) {
            return seen;
        }
        assert(Date.now() < end, `waited in vain for ${what}`);
        await pause(PAUSE_MS);
    }
}

export const extension = (): vscode.Extension<Api> => {
    const found = vscode.extensions.getExtension<Api>("drygrad.drygrad");
    assert(found, "the extension is installed");
    return found;
};

export const drygrad = async (): Promise<Api> => extension().activate();

/** The folder that the window shows. */
export const root = (): vscode.Uri => {
    const folder = vscode.workspace.workspaceFolders?.[0];
    assert(folder, "a folder is open");
    return folder.uri;
};

/** Write a file, and show it with the cursor before a text of it. */
export async function show(name: string, text: string, cursor?: string): Promise<vscode.TextDocument> {
    const file = vscode.Uri.joinPath(root(), name);
    fs.mkdirSync(path.dirname(file.fsPath), { recursive: true });
    fs.writeFileSync(file.fsPath, text);
    const document = await vscode.workspace.openTextDocument(file);
    const place = document.positionAt(Math.max(text.indexOf(cursor ?? ""), 0));
    await vscode.window.showTextDocument(document, { selection: new vscode.Range(place, place), preview: false });
    return document;
}

/** The findings of ours in a document, as "CODE message". */
export function findings(uri: vscode.Uri): string[] {
    const ours = vscode.languages.getDiagnostics(uri).filter((found) => found.source === "drygrad");
    return ours.map((found) => `${codeOf(found)} ${found.message}`);
}

export function codeOf(found: vscode.Diagnostic): string {
    return String(typeof found.code === "object" ? found.code.value : found.code);
}

export async function untilFound(uri: vscode.Uri, words: string): Promise<void> {
    await until(() => findings(uri).some((text) => text.includes(words)), `“${words}” among the findings`);
}

/** The titles of the lenses of a document. */
export async function lenses(uri: vscode.Uri): Promise<string[]> {
    const found = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", uri);
    return found.map((lens) => lens.command?.title ?? "");
}

/** The inlay hints of a document. */
export async function hints(document: vscode.TextDocument): Promise<string[]> {
    const all = new vscode.Range(0, 0, document.lineCount, 0);
    const found = await vscode.commands.executeCommand<vscode.InlayHint[]>("vscode.executeInlayHintProvider", document.uri, all);
    return found.map((hint) => (typeof hint.label === "string" ? hint.label : hint.label.map((part) => part.value).join("")));
}

/** Wait until VS Code watches the folder, which it begins some time after the window has opened. */
export async function untilWatched(): Promise<void> {
    const watcher = vscode.workspace.createFileSystemWatcher("**/watched-*");
    let told = false;
    let tries = 0;
    watcher.onDidCreate(() => (told = true));
    const look = async (): Promise<boolean> => {
        fs.writeFileSync(path.join(root().fsPath, `watched-${tries++}`), "");
        await pause(WATCH_MS);
        return told;
    };
    await until(look, "word of a new file");
    watcher.dispose();
}

/** A Python that the tests are given: one with torch, or the one that has drygrad itself. */
export function givenPython(kind: "TORCH" | "DRYGRAD"): string {
    const python = process.env[`DRYGRAD_TEST_PYTHON_WITH_${kind}`];
    assert(python, `a Python with ${kind.toLowerCase()} is given`);
    return python;
}

/** Run what a command runs, and return the status when that has ended. */
export async function ran(command: string): Promise<NonNullable<Status["lastRun"]>> {
    const { lastStatus } = await drygrad();
    const before = lastStatus()?.lastRun?.runId;
    await vscode.commands.executeCommand(command);
    return until(() => {
        const status = lastStatus();
        return status?.lastRun?.runId !== before && !status?.running.length ? status?.lastRun : null;
    }, `the end of ${command}`);
}

/** Change a setting of the user, or (undefined) drop it. */
export async function set(name: string, value: unknown, target = vscode.ConfigurationTarget.Global): Promise<void> {
    await vscode.workspace.getConfiguration("drygrad").update(name, value, target);
}

/** The processes of our servers that this window has started. */
export function servers(): { pid: number; command: string }[] {
    return fs
        .readdirSync("/proc")
        .filter((name) => /^\d+$/.test(name) && parentOf(name) === process.pid)
        .map((name) => ({ pid: Number(name), command: read(`/proc/${name}/cmdline`).replaceAll("\0", " ").trim() }))
        .filter(({ command }) => command.endsWith(" server"));
}

const parentOf = (pid: string): number => Number(/^PPid:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0);

/** A process may end while one looks at it. */
function read(file: string): string {
    try {
        return fs.readFileSync(file, "utf8");
    } catch {
        return "";
    }
}
