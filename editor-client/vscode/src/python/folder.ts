/** A virtual environment in the workspace folder. */

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
        const folder = scope ? vscode.workspace.getWorkspaceFolder(scope) : vscode.workspace.workspaceFolders?.[0];
        if (!folder || folder.uri.scheme !== "file") {
            return null;
        }
        for (const name of NAMES) {
            const candidate = path.join(folder.uri.fsPath, name, ...PYTHON);
            if (await exists(candidate)) {
                return candidate;
            }
        }
        return null;
    }

    dispose(): void {
        this.watchers.forEach((watcher) => watcher.dispose());
        this.emitter.dispose();
    }
}

async function exists(file: string): Promise<boolean> {
    return fs.access(file).then(
        () => true,
        () => false,
    );
}
