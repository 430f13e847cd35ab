/** Stands in for ms-python.vscode-python-envs: each folder has the interpreter that a test has chosen for it. */

import type { DidChangeEnvironmentEventArgs, PythonEnvironment, PythonEnvironmentApi } from "@vscode/python-environments";
import * as vscode from "vscode";

export type EnvironmentsStandIn = Pick<PythonEnvironmentApi, "getEnvironment" | "onDidChangeEnvironment"> & {
    choose(folder: vscode.Uri, python: string | null): void;
};

export function activate(): EnvironmentsStandIn {
    const changed = new vscode.EventEmitter<DidChangeEnvironmentEventArgs>();
    const chosen = new Map<string, PythonEnvironment | undefined>();
    return {
        getEnvironment: async (scope) => {
            const folder = scope && vscode.workspace.getWorkspaceFolder(scope);
            return folder && chosen.get(folder.uri.toString());
        },
        onDidChangeEnvironment: changed.event,
        choose: (folder, python) => {
            const old = chosen.get(folder.toString());
            chosen.set(folder.toString(), python ? described(python) : undefined);
            changed.fire({ uri: folder, old, new: chosen.get(folder.toString()) });
        },
    };
}

function described(python: string): PythonEnvironment {
    return {
        envId: { id: python, managerId: "ms-python.python:venv" },
        name: "chosen",
        displayName: "chosen",
        displayPath: python,
        version: "3.12.0",
        environmentPath: vscode.Uri.file(python),
        execInfo: { run: { executable: python } },
        sysPrefix: python,
    };
}
