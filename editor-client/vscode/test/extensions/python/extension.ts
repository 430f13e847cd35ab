/** Stands in for ms-python.python: the interpreter is the one that a test has chosen. */

import type { ActiveEnvironmentPathChangeEvent, PythonExtension, ResolvedEnvironment } from "@vscode/python-extension";
import * as vscode from "vscode";

export type PythonStandIn = { environments: Used } & { choose(python: string | null): void };
type Used = Pick<
    PythonExtension["environments"],
    "getActiveEnvironmentPath" | "resolveEnvironment" | "onDidChangeActiveEnvironmentPath"
>;

export function activate(): PythonStandIn {
    const changed = new vscode.EventEmitter<ActiveEnvironmentPathChangeEvent>();
    let active = "";
    return {
        environments: {
            getActiveEnvironmentPath: () => ({ id: active, path: active }),
            resolveEnvironment: async (environment) => {
                const path = typeof environment === "string" ? environment : environment.path;
                return path ? described(path) : undefined;
            },
            onDidChangeActiveEnvironmentPath: changed.event,
        },
        choose: (python) => {
            active = python ?? "";
            changed.fire({ id: active, path: active, resource: undefined });
        },
    };
}

function described(path: string): ResolvedEnvironment {
    const executable = { uri: vscode.Uri.file(path), bitness: "64-bit" as const, sysPrefix: path };
    return { id: path, path, executable, environment: undefined, version: undefined, tools: [] };
}
