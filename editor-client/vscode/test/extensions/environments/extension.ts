/** Stands in for ms-python.vscode-python-envs: a file has the interpreter that a test has chosen for the nearest folder. */

import type { DidChangeEnvironmentEventArgs, PythonEnvironment, PythonEnvironmentApi } from "@vscode/python-environments";
import * as vscode from "vscode";

export type EnvironmentsStandIn = Pick<PythonEnvironmentApi, "getEnvironment" | "onDidChangeEnvironment"> & {
    choose(folder: vscode.Uri, python: string | null): void;
};

export function activate(): EnvironmentsStandIn {
    const changed = new vscode.EventEmitter<DidChangeEnvironmentEventArgs>();
    const chosen = new Map<string, PythonEnvironment>();
    return {
        getEnvironment: async (scope) => {
            const around = [...chosen.keys()].filter((folder) => `${scope?.toString()}/`.startsWith(`${folder}/`));
            return chosen.get(around.sort().at(-1) ?? "");
        },
        onDidChangeEnvironment: changed.event,
        choose: (folder, python) => {
            const old = chosen.get(folder.toString());
            if (python) {
                chosen.set(folder.toString(), described(python));
            } else {
                chosen.delete(folder.toString());
            }
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
