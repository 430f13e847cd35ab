/** Which Python runs the server itself. It needs 3.10 and nothing installed, for the extension carries the rest. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import * as vscode from "vscode";
import { Environments } from "./environments";
import { NEUTRAL } from "./neutral";

const run = promisify(execFile);
const PATIENCE_MS = 30_000; // a busy machine takes its time

const RECENT = "import sys; print(sys.executable) if sys.version_info >= (3, 10) else sys.exit(1)";
const HAS_SERVER = `import importlib.util as u; u.find_spec("drygrad.cli.main") or exit(1); ${RECENT}`;

/** Return a Python of version 3.10 or later: the setting, else one on PATH, else the workspace's; null if there is none. */
export async function serverPython(environments: Environments): Promise<string | null> {
    const chosen = vscode.workspace.getConfiguration("drygrad").get<string>("serverPython");
    const onPath = process.platform === "win32" ? ["python", "py"] : ["python3", "python"];
    for (const candidate of chosen ? [chosen] : onPath) {
        const found = await ask(candidate, RECENT);
        if (found) {
            return found;
        }
    }
    const own = chosen ? null : await workspacePython(environments);
    return own ? ask(own, RECENT) : null;
}

/** Return the Python of the workspace, when all who may know it have been asked. */
export async function workspacePython(environments: Environments): Promise<string | null> {
    await environments.settled;
    return environments.interpreter(vscode.workspace.workspaceFolders?.[0]?.uri);
}

/** Say whether drygrad is installed in the environment of a Python, and can run there. */
export async function hasServer(python: string): Promise<boolean> {
    return (await ask(python, HAS_SERVER)) !== null;
}

async function ask(python: string, question: string): Promise<string | null> {
    try {
        const { stdout } = await run(python, ["-c", question], { ...NEUTRAL, timeout: PATIENCE_MS });
        return stdout.trim() || null;
    } catch {
        return null; // not there, too old, or broken: the next candidate may do
    }
}
