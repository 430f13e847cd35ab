/** Runs the suites for this window, trusted or not, and writes what came of them into a file. */

import * as fs from "node:fs";
import * as path from "node:path";
import Mocha from "mocha";
import * as vscode from "vscode";

const TIMEOUT_MS = 300_000;

export async function activate(): Promise<void> {
    const folder = process.env["DRYGRAD_TEST_REPORTS"];
    if (!folder) {
        return;
    }
    const kind = vscode.workspace.isTrusted ? "trusted" : "untrusted";
    const report = path.join(folder, `${kind}.jsonl`);
    const tell = (line: object): void => fs.appendFileSync(report, `${JSON.stringify(line)}\n`);
    try {
        await run(kind, tell);
        tell({ done: true });
    } catch (error) {
        tell({ done: true, error: String(error) });
    }
}

/** Run the suites; tell of each test its title, the seconds it took, and why it failed. */
async function run(kind: "trusted" | "untrusted", tell: (line: object) => void): Promise<void> {
    const mocha = new Mocha({ ui: "bdd", timeout: TIMEOUT_MS, grep: process.env["DRYGRAD_TEST_GREP"] ?? "" });
    mocha.suite.emit("pre-require", globalThis, "", mocha);
    await (kind === "trusted" ? import("../../suites/trusted") : import("../../suites/untrusted"));
    const note = (test: Mocha.Test, error: Error | null): void => {
        tell({ title: test.fullTitle(), seconds: (test.duration ?? 0) / 1000, error: error && (error.stack ?? error.message) });
    };
    await new Promise<void>((resolve) => {
        const runner = mocha.run(() => resolve());
        runner.on("pass", (test) => note(test, null));
        runner.on("fail", note);
    });
}
