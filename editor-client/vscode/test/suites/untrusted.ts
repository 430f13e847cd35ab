/** What is tried in a window that the user does not trust: static checks, and nothing that executes the folder's code. */

import { strict as assert } from "node:assert";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import { drygrad, findings, hints, lenses, root, servers, show, untilFound } from "../support";
import { FAULT, RUNNABLE, WRONG } from "./programs";

describe("a folder that is not trusted", () => {
    it("is checked as one types", async () => {
        await untilFound((await show("static.py", WRONG)).uri, "DG101");
        const { statusItem } = await drygrad();
        assert.deepEqual(statusItem.text.lines, ["Static checks only: trust this workspace to allow dry runs."]);
    });

    it("has no lens that runs", async () => {
        const document = await show("lens.py", RUNNABLE);
        await untilFound((await show("static.py", WRONG)).uri, "DG101");
        assert.deepEqual(await lenses(document.uri), []);
    });

    it("is not run, whoever asks", async () => {
        const { server, lastStatus } = await drygrad();
        const document = await show("run.py", RUNNABLE, "return F");
        for (const command of ["dryRunFunction", "dryRunFile"]) {
            await vscode.commands.executeCommand(`drygrad.${command}`);
        }
        const argument = { uri: document.uri.toString(), version: document.version, qualname: "loss", position: null, device: null };
        const answer = await server.running?.sendRequest<{ runId: string | null }>("workspace/executeCommand", {
            command: "drygrad.dryRun",
            arguments: [argument],
        });
        assert.equal(answer?.runId, null);
        await vscode.commands.executeCommand("workbench.action.files.save");
        assert.deepEqual([lastStatus()?.running ?? [], lastStatus()?.lastRun ?? null], [[], null]);
        assert(!findings(document.uri).some((text) => text.includes(FAULT)));
        assert.deepEqual(await hints(document), []);
    });

    it("cannot choose what is executed: its settings of paths do not count", async () => {
        const configuration = vscode.workspace.getConfiguration("drygrad");
        const written = fs.readFileSync(path.join(root().fsPath, ".vscode", "settings.json"), "utf8");
        assert.deepEqual(Object.keys(JSON.parse(written)), ["drygrad.interpreter", "drygrad.launcher", "drygrad.importStrategy"]);
        assert.deepEqual([configuration.get("interpreter"), configuration.get("launcher")], [null, null]);
        assert.equal(configuration.get("importStrategy"), "useBundled");
        assert.equal(await (await drygrad()).environments.interpreter(undefined), null);
        assert.match(servers()[0]?.command ?? "", /bundled\/drygrad\.py server$/);
    });
});
