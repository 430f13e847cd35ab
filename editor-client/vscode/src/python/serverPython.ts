/** Which Python runs the server itself. It needs 3.10 and nothing installed, for the extension carries the rest. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import * as vscode from "vscode";
import { Environments } from "./environments";

const run = promisify(execFile);
const QUESTION = "import sys; print(sys.executable) if sys.version_info >= (3, 10) else sys.exit(1)";
const PATIENCE_MS = 10_000;

/** Return a Python of version 3.10 or later: the setting, else one on PATH, else the workspace's; null if there is none. */
export async function serverPython(environments: Environments): Promise<string | null> {
    const chosen = vscode.workspace.getConfiguration("drygrad").get<string>("serverPython");
    const onPath = process.platform === "win32" ? ["python", "py"] : ["python3", "python"];
    for (const candidate of chosen ? [chosen] : onPath) {
        const found = await usable(candidate);
        if (found) {
            return found;
        }
    }
    const own = chosen ? null : await environments.interpreter(vscode.workspace.workspaceFolders?.[0]?.uri);
    return own ? usable(own) : null;
}

async function usable(python: string): Promise<string | null> {
    try {
        const { stdout } = await run(python, ["-I", "-c", QUESTION], { timeout: PATIENCE_MS });
        return stdout.trim() || null;
    } catch {
        return null; // not there, too old, or broken: the next candidate may do
    }
}
