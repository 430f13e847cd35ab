/** The interpreter that ms-python.vscode-python-envs has chosen. */

import * as vscode from "vscode";
import { Provider } from "./environments";

/** The part of that extension's interface that is used here. */
interface Api {
    getEnvironment(scope: vscode.Uri | undefined): Promise<{ execInfo?: { run?: { executable?: string } } } | undefined>;
    onDidChangeEnvironment: vscode.Event<unknown>;
}

export class PythonEnvironmentsExtension implements Provider {
    readonly changed: vscode.Event<void>;

    private constructor(private readonly api: Api) {
        this.changed = (listener) => api.onDidChangeEnvironment(() => listener());
    }

    static async find(): Promise<Provider | null> {
        const extension = vscode.extensions.getExtension<Api>("ms-python.vscode-python-envs");
        const api = await extension?.activate();
        return api && "getEnvironment" in api ? new PythonEnvironmentsExtension(api) : null;
    }

    async interpreter(scope: vscode.Uri | undefined): Promise<string | null> {
        return (await this.api.getEnvironment(scope))?.execInfo?.run?.executable ?? null;
    }

    dispose(): void {}
}
