/** A virtual environment in the workspace folder. */

import * as fs from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";

/** Return the Python of `.venv` or `venv` in the folder of a file; null if there is none. */
export async function folderEnvironment(scope: vscode.Uri | undefined): Promise<string | null> {
    const folder = scope ? vscode.workspace.getWorkspaceFolder(scope) : vscode.workspace.workspaceFolders?.[0];
    if (!folder || folder.uri.scheme !== "file") {
        return null;
    }
    const python = process.platform === "win32" ? ["Scripts", "python.exe"] : ["bin", "python"];
    for (const name of [".venv", "venv"]) {
        const candidate = path.join(folder.uri.fsPath, name, ...python);
        if (await exists(candidate)) {
            return candidate;
        }
    }
    return null;
}

async function exists(file: string): Promise<boolean> {
    return fs.access(file).then(
        () => true,
        () => false,
    );
}
