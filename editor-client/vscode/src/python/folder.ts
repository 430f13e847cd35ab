/** The virtual environment nearest to a file, within the workspace folder. */

import * as fs from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { Provider } from "./environments";

const SETTLED_MS = 2_000;
const NAMES = [".venv", "venv"];
const PYTHON = process.platform === "win32" ? ["Scripts", "python.exe"] : ["bin", "python"];

export class FolderEnvironments implements Provider {
    private readonly emitter = new vscode.EventEmitter<void>();
    readonly changed = this.emitter.event;
    /** Of a folder that is deleted as a whole, only that is told. */
    private readonly watchers = NAMES.flatMap((name) => [this.watch(`**/${name}`), this.watch(`**/${name}/pyvenv.cfg`)]);

    private watch(pattern: string): vscode.Disposable {
        const watcher = vscode.workspace.createFileSystemWatcher(pattern, false, true, false);
        const tell = (): void => this.emitter.fire();
        watcher.onDidDelete(tell);
        watcher.onDidCreate(() => {
            tell();
            setTimeout(tell, SETTLED_MS); // what is made in a folder that is new itself is not always told
        });
        return watcher;
    }

    async interpreter(scope: vscode.Uri | undefined): Promise<string | null> {
        for (const folder of foldersAround(scope)) {
            for (const name of NAMES) {
                const candidate = path.join(folder, name, ...PYTHON);
                if (await exists(candidate)) {
                    return candidate;
                }
            }
        }
        return null;
    }

    dispose(): void {
        this.watchers.forEach((watcher) => watcher.dispose());
        this.emitter.dispose();
    }
}

/** Return the folders around a file, innermost first, up to the one that is open; of that one, only itself. */
function foldersAround(scope: vscode.Uri | undefined): string[] {
    const opened = scope ? vscode.workspace.getWorkspaceFolder(scope) : vscode.workspace.workspaceFolders?.[0];
    if (!opened || opened.uri.scheme !== "file") {
        return [];
    }
    const top = opened.uri.fsPath;
    const below = scope ? path.relative(top, scope.fsPath).split(path.sep).slice(0, -1) : [];
    return [...below.map((_, index) => path.join(top, ...below.slice(0, below.length - index))), top];
}

async function exists(file: string): Promise<boolean> {
    return fs.access(file).then(
        () => true,
        () => false,
    );
}
