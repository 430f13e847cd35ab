/** The interpreter that ms-python.python has chosen. */

import type { PythonExtension as Api } from "@vscode/python-extension";
import * as vscode from "vscode";
import { Provider } from "./environments";

export class PythonExtension implements Provider {
    readonly changed: vscode.Event<void>;

    private constructor(private readonly api: Pick<Api, "environments">) {
        this.changed = (listener) => api.environments.onDidChangeActiveEnvironmentPath(() => listener());
    }

    static async find(): Promise<Provider | null> {
        const extension = vscode.extensions.getExtension<Api | undefined>("ms-python.python");
        const api = await extension?.activate();
        return api ? new PythonExtension(api) : null;
    }

    async interpreter(scope: vscode.Uri | undefined): Promise<string | null> {
        const active = this.api.environments.getActiveEnvironmentPath(scope);
        const environment = await this.api.environments.resolveEnvironment(active);
        return environment?.executable.uri?.fsPath ?? null;
    }

    dispose(): void {}
}
