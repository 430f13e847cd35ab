/** Which Python the user works with: the setting, else the Python extensions, else a virtual environment in the folder. */

import * as vscode from "vscode";
import { folderEnvironment } from "./folder";
import { PythonEnvironmentsExtension } from "./environmentsExtension";
import { PythonExtension } from "./pythonExtension";

/** A source of interpreters; null where it is not installed or knows none. */
export interface Provider extends vscode.Disposable {
    readonly changed: vscode.Event<void>;
    interpreter(scope: vscode.Uri | undefined): Promise<string | null>;
}

export class Environments implements vscode.Disposable {
    private readonly emitter = new vscode.EventEmitter<void>();
    private readonly known = new Map<string, string | null>();
    /** An interpreter that was given out before is another one now. */
    readonly changed = this.emitter.event;

    private constructor(private readonly providers: Provider[]) {
        for (const provider of providers) {
            provider.changed(() => void this.compare());
        }
    }

    static async create(): Promise<Environments> {
        const offered = [await PythonEnvironmentsExtension.find(), await PythonExtension.find()];
        return new Environments(offered.filter((provider) => provider !== null));
    }

    /** Return the interpreter for a file or folder; null leaves the choice to the server (VIRTUAL_ENV, .venv, PATH). */
    async interpreter(scope: vscode.Uri | undefined): Promise<string | null> {
        const found = await this.look(scope);
        this.known.set(scope?.toString() ?? "", found);
        return found;
    }

    private async look(scope: vscode.Uri | undefined): Promise<string | null> {
        const chosen = vscode.workspace.getConfiguration("drygrad", scope).get<string>("interpreter");
        if (chosen) {
            return chosen;
        }
        if (!vscode.workspace.isTrusted) {
            return null;
        }
        for (const provider of this.providers) {
            const found = await provider.interpreter(scope);
            if (found) {
                return found;
            }
        }
        return folderEnvironment(scope);
    }

    /** The Python extensions tell of every change; only one of an interpreter in use matters. */
    private async compare(): Promise<void> {
        for (const [scope, before] of [...this.known]) {
            if ((await this.look(scope ? vscode.Uri.parse(scope) : undefined)) !== before) {
                this.emitter.fire();
                return;
            }
        }
    }

    dispose(): void {
        this.emitter.dispose();
        this.providers.forEach((provider) => provider.dispose());
    }
}
