/** The interpreter that ms-python.vscode-python-envs has chosen. */

import type { PythonEnvironmentApi } from "@vscode/python-environments";
import * as vscode from "vscode";
import { Provider } from "./environments";

/** The part of that extension's interface that is used here. */
type Api = Pick<PythonEnvironmentApi, "getEnvironment" | "onDidChangeEnvironment">;

export class PythonEnvironmentsExtension implements Provider {
    readonly changed: vscode.Event<void>;

    private constructor(private readonly api: Api) {
        this.changed = (listener) => api.onDidChangeEnvironment(() => listener());
    }

    /** Return it if it is installed, and not switched off by `python.useEnvironmentsExtension`. */
    static async find(): Promise<Provider | null> {
        const extension = vscode.extensions.getExtension<Api | undefined>("ms-python.vscode-python-envs");
        const api = await extension?.activate();
        return api ? new PythonEnvironmentsExtension(api) : null;
    }

    async interpreter(scope: vscode.Uri | undefined): Promise<string | null> {
        return (await this.api.getEnvironment(scope))?.execInfo?.run.executable ?? null;
    }

    dispose(): void {}
}
