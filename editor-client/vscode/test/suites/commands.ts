/** Every command of the palette. */

import { strict as assert } from "node:assert";
import * as vscode from "vscode";
import { drygrad, extension, findings, lenses, pause, ran, root, servers, show, until, untilFound } from "../support";
import { FAULT, RUNNABLE, WRONG } from "./programs";

const CHOICE_MS = 1_000;

const run = (name: string): Thenable<unknown> => vscode.commands.executeCommand(`drygrad.${name}`);
const tabs = (): string[] => vscode.window.tabGroups.all.flatMap((group) => group.tabs.map((tab) => tab.label));

/** Open a file whose function has been run. */
async function withResult(name: string): Promise<vscode.TextDocument> {
    const document = await show(name, RUNNABLE, "return F");
    assert.equal((await ran("drygrad.dryRunFunction")).outcome, "failed");
    return document;
}

describe("commands", () => {
    it("all that are contributed exist", async () => {
        await drygrad();
        const contributed: { command: string }[] = extension().packageJSON.contributes.commands;
        const existing = await vscode.commands.getCommands(true);
        assert.deepEqual(contributed.filter(({ command }) => !existing.includes(command)), []);
    });

    it("Dry-Run Function runs the function under the cursor", async () => {
        const document = await withResult("function.py");
        await untilFound(document.uri, FAULT);
        const seen = await lenses(document.uri);
        assert.equal(seen.filter((title) => title.includes("pinned")).length, 1, seen.join(" | "));
    });

    it("Dry-Run Function runs the function whose inputs are under the cursor", async () => {
        await show("inputs.py", RUNNABLE, "# dry-run: logits");
        assert.equal((await ran("drygrad.dryRunFunction")).target, "loss");
    });

    it("Dry-Run File runs all that it can", async () => {
        const document = await show("file.py", RUNNABLE.replace("steps + 1", "steps - 1"));
        await ran("drygrad.dryRunFile");
        await untilFound(document.uri, FAULT);
        assert.equal((await lenses(document.uri)).filter((title) => title.includes("pinned")).length, 2);
    });

    it("Cancel Dry Runs ends what runs", async () => {
        const { lastStatus } = await drygrad();
        await show("endless.py", RUNNABLE, "while");
        await run("dryRunFunction");
        await until(() => lastStatus()?.running.length, "the run");
        await run("cancelRuns");
        await until(() => lastStatus()?.running.length === 0, "its end");
        assert.equal(lastStatus()?.lastRun?.outcome, "cancelled");
    });

    it("Pin Function and Unpin Function pin the function under the cursor", async () => {
        const document = await show("pinned.py", RUNNABLE, "return F");
        await until(async () => (await lenses(document.uri)).includes("▶ Dry-run"), "the lens");
        await run("pinFunction");
        const first = ["▶ Dry-run", "▶ Forecast", "● pinned", "⋯"];
        const shown = async () => (await lenses(document.uri)).slice(0, first.length).join() === first.join();
        await until(shown, "the pin beside the first function");
        await run("unpinFunction");
        await until(async () => !(await lenses(document.uri)).includes("● pinned"), "the pin gone");
    });

    it("Clear Dry-Run Results drops what was seen", async () => {
        const document = await withResult("clear.py");
        await untilFound(document.uri, FAULT);
        await run("clearResults");
        await until(() => !findings(document.uri).some((text) => text.includes(FAULT)), "the finding gone");
    });

    it("Show Last Result opens the panel", async () => {
        const { panel } = await drygrad();
        await withResult("result.py");
        await run("showResult");
        await until(() => tabs().some((label) => label.startsWith("Dry run: result.py::loss")), "the panel");
        assert.equal(panel.reports[0]?.outcome, "failed");
    });

    it("Select Device sets the device", async () => {
        const device = (): unknown => vscode.workspace.getConfiguration("drygrad").get("device");
        const choose = async (): Promise<boolean> => {
            const choosing = run("selectDevice");
            await pause(CHOICE_MS); // nothing tells when its list is there
            await vscode.commands.executeCommand("quickInput.last");
            await vscode.commands.executeCommand("workbench.action.acceptSelectedQuickOpenItem");
            await Promise.race([choosing, pause(CHOICE_MS)]);
            return device() !== "auto";
        };
        await until(choose, "another device");
        assert.equal(device(), "cpu");
        await vscode.workspace.getConfiguration("drygrad").update("device", undefined, vscode.ConfigurationTarget.Global);
    });

    it("Explain Rule shows the page of the finding under the cursor", async () => {
        const document = await show("explain.py", WRONG, "y.clamp_");
        await untilFound(document.uri, "DG101");
        await run("explainRule");
        await until(() => tabs().some((label) => label.includes("DG101")), "the page");
        const page = await vscode.workspace.openTextDocument(vscode.Uri.parse("drygrad-rule:/DG101.md"));
        assert.match(page.getText(), /Why is this bad\?/);
    });

    it("Restart Workers ends the worker, and leaves the server", async () => {
        const { lastStatus } = await drygrad();
        await withResult("workers.py");
        const before = servers();
        await run("restartRunWorkers");
        await until(() => lastStatus()?.worker.state !== "busy", "a worker at rest");
        assert.deepEqual(servers(), before);
        await withResult("workers_again.py");
    });

    it("Restart Server starts another server, which checks the open files", async () => {
        const document = await show("restart.py", WRONG);
        await untilFound(document.uri, "DG101");
        const [before] = servers();
        await run("restartServer");
        await untilFound(document.uri, "DG101");
        const [after, ...more] = await until(() => (servers()[0]?.pid === before?.pid ? null : servers()), "another server");
        assert.deepEqual([after?.command, more], [before?.command, []]);
    });

    it("Show Logs shows the log", async () => {
        await run("showLogs");
        const logs = (): boolean => vscode.workspace.textDocuments.some(({ uri }) => uri.scheme === "output" && uri.path.includes("drygrad"));
        await until(logs, "the log");
    });

    it("Show Doctor Report opens the report", async () => {
        await show("doctor.py", RUNNABLE);
        await run("showDoctor");
        const report = vscode.window.activeTextEditor?.document;
        assert.equal(report?.isUntitled, true);
        assert(report.getText().split("\n").some((line) => line.startsWith("root ") && line.endsWith(root().fsPath)), report.getText());
        assert.match(report.getText(), /torch/);
        assert.doesNotMatch(report.getText(), /Traceback/);
    });
});
