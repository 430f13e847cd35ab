/** The interpreter that ms-python.python has chosen. */

import * as vscode from "vscode";
import { Provider } from "./environments";

/** The part of that extension's interface that is used here. */
interface Api {
    environments: {
        getActiveEnvironmentPath(scope: vscode.Uri | undefined): { path: string };
        resolveEnvironment(path: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
        onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
    };
}

export class PythonExtension implements Provider {
    readonly changed: vscode.Event<void>;

    private constructor(private readonly api: Api) {
        this.changed = (listener) => api.environments.onDidChangeActiveEnvironmentPath(() => listener());
    }

    static async find(): Promise<Provider | null> {
        const extension = vscode.extensions.getExtension<Api>("ms-python.python");
        const api = await extension?.activate();
        return api && "environments" in api ? new PythonExtension(api) : null;
    }

    async interpreter(scope: vscode.Uri | undefined): Promise<string | null> {
        const active = this.api.environments.getActiveEnvironmentPath(scope);
        const environment = await this.api.environments.resolveEnvironment(active);
        return environment?.executable.uri?.fsPath ?? null;
    }

    dispose(): void {}
}
