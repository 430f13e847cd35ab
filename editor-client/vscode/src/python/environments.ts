/** Which Python the user works with: the setting, else the Python extensions, else the nearest virtual environment. */

import * as vscode from "vscode";
import { log } from "../log";
import { PythonEnvironmentsExtension } from "./environmentsExtension";
import { FolderEnvironments } from "./folder";
import { PythonExtension } from "./pythonExtension";

/** A source of interpreters. */
export interface Provider extends vscode.Disposable {
    readonly changed: vscode.Event<void>;
    /** Return the interpreter of a file or folder; null where this source knows none. */
    interpreter(scope: vscode.Uri | undefined): Promise<string | null>;
}

/** The sources, best first; null where the extension that has it is not installed, or does not say. */
const SOURCES: (() => Promise<Provider | null>)[] = [
    () => PythonEnvironmentsExtension.find(),
    () => PythonExtension.find(),
    async () => new FolderEnvironments(),
];

export class Environments implements vscode.Disposable {
    private readonly emitter = new vscode.EventEmitter<void>();
    private readonly known = new Map<string, string | null>();
    private readonly providers: (Provider | null)[] = SOURCES.map(() => null);
    private readonly installed: vscode.Disposable;
    private comparing = Promise.resolve();
    /** All sources that are installed have answered. The server does not wait for it: checks need no interpreter. */
    readonly settled: Promise<void>;
    /** An interpreter that was given out before is another one now. */
    readonly changed = this.emitter.event;

    constructor() {
        this.settled = this.findAll();
        this.installed = vscode.extensions.onDidChange(() => void this.findAll());
    }

    /** Return the interpreter for a file or folder; null leaves the choice to the server (VIRTUAL_ENV, .venv, PATH). */
    async interpreter(scope: vscode.Uri | undefined): Promise<string | null> {
        const found = await this.look(scope);
        this.known.set(scope?.toString() ?? "", found);
        return found;
    }

    private async findAll(): Promise<void> {
        await Promise.all(SOURCES.map((_, index) => this.find(index)));
    }

    private async find(index: number): Promise<void> {
        const provider = this.providers[index] ? null : await quietly(async () => SOURCES[index]?.());
        if (!provider || this.providers[index]) {
            provider?.dispose(); // another look was faster
            return;
        }
        this.providers[index] = provider;
        provider.changed(() => void this.follow());
        await this.follow();
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
            const found = await quietly(async () => provider?.interpreter(scope));
            if (found) {
                return found;
            }
        }
        return null;
    }

    /** Look whether an interpreter in use is another one now, and tell so. */
    follow(): Promise<void> {
        this.comparing = this.comparing.then(() => this.compare());
        return this.comparing;
    }

    /** The sources tell of every change; only one of an interpreter in use matters. */
    private async compare(): Promise<void> {
        let changed = false;
        for (const scope of [...this.known.keys()]) {
            const found = await this.look(scope ? vscode.Uri.parse(scope) : undefined);
            changed ||= found !== this.known.get(scope);
            this.known.set(scope, found);
        }
        if (changed) {
            this.emitter.fire();
        }
    }

    dispose(): void {
        this.installed.dispose();
        this.emitter.dispose();
        this.providers.forEach((provider) => provider?.dispose());
    }
}

/** Another extension may fail in its own way; then the next source is asked. */
async function quietly<T>(ask: () => Promise<T>): Promise<T | null> {
    try {
        return await ask();
    } catch (error) {
        log.warn(`an extension could not tell the interpreter: ${String(error)}`);
        return null;
    }
}
