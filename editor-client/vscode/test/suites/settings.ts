/** A changed setting holds at once, without a restart. */

import { strict as assert } from "node:assert";
import * as vscode from "vscode";
import { codeOf, drygrad, findings, hints, lenses, ran, servers, set, show, until, untilFound } from "../support";
import { FAULT, RUNNABLE, WRONG } from "./programs";

/** Do something while settings are others than usual. */
async function withSettings(settings: Record<string, unknown>, action: () => Promise<void>): Promise<void> {
    const before = servers();
    try {
        for (const [name, value] of Object.entries(settings)) {
            await set(name, value);
        }
        await action();
        assert.deepEqual(servers(), before, "the server is the same");
    } finally {
        for (const name of Object.keys(settings)) {
            await set(name, undefined);
        }
    }
}

const has = (uri: vscode.Uri, code: string): boolean => findings(uri).some((text) => text.startsWith(code));

async function open(name: string): Promise<vscode.TextDocument> {
    const document = await show(name, WRONG);
    await untilFound(document.uri, "DG101");
    return document;
}

describe("settings", () => {
    it("ignore", async () => {
        const { uri } = await open("ignore.py");
        await withSettings({ ignore: ["DG1"] }, async () => {
            await until(() => !has(uri, "DG101"), "the finding gone");
        });
        await untilFound(uri, "DG101");
    });

    it("select", async () => {
        const { uri } = await open("select.py");
        await withSettings({ select: ["DG3"] }, async () => {
            await until(() => !has(uri, "DG101"), "the finding gone");
        });
        await untilFound(uri, "DG101");
    });

    it("severity", async () => {
        const { uri } = await open("severity.py");
        await withSettings({ severity: { DG101: "hint" } }, async () => {
            const found = (): vscode.Diagnostic | undefined => vscode.languages.getDiagnostics(uri).find((one) => codeOf(one) === "DG101");
            await until(() => found()?.severity === vscode.DiagnosticSeverity.Hint, "a hint");
        });
    });

    it("device", async () => {
        await withSettings({ device: "cpu" }, async () => {
            await show("device.py", RUNNABLE.replace("5, 2]", "4, 2]"), "return F");
            assert.match((await ran("drygrad.dryRunFunction")).text, /passed on the CPU/);
            assert.equal((await drygrad()).statusItem.text.item, "$(check) drygrad · cpu");
        });
    });

    it("timeout", async () => {
        await withSettings({ timeout: 1 }, async () => {
            await show("timeout.py", RUNNABLE, "while");
            assert.equal((await ran("drygrad.dryRunFunction")).outcome, "deadline");
        });
    });

    it("codeLens", async () => {
        const { uri } = await show("lens.py", RUNNABLE);
        await until(async () => (await lenses(uri)).length, "lenses");
        await withSettings({ codeLens: false }, async () => {
            await until(async () => !(await lenses(uri)).length, "no lens");
        });
        await until(async () => (await lenses(uri)).length, "lenses again");
    });

    it("inlayHints", async () => {
        const document = await show("hints.py", RUNNABLE, "return F");
        await ran("drygrad.dryRunFunction");
        await until(async () => (await hints(document)).some((hint) => hint.includes("[4, 5]")), "the shape");
        await withSettings({ inlayHints: false }, async () => {
            await until(async () => !(await hints(document)).length, "no shape");
        });
    });

    it("dryRunOnSave", async () => {
        const { lastStatus } = await drygrad();
        const document = await show("save.py", RUNNABLE, "return F");
        await ran("drygrad.dryRunFunction");
        await untilFound(document.uri, FAULT);
        const edit = async (from: string, to: string): Promise<void> => {
            const change = new vscode.WorkspaceEdit();
            const start = document.positionAt(document.getText().indexOf(from));
            change.replace(document.uri, new vscode.Range(start, start.translate(0, from.length)), to);
            await vscode.workspace.applyEdit(change);
            await document.save();
        };
        await withSettings({ dryRunOnSave: false }, async () => {
            const before = lastStatus()?.lastRun?.runId;
            await edit("logits - 1", "logits - 2");
            await until(() => !findings(document.uri).some((text) => text.includes(FAULT)), "the old result gone");
            assert.equal(lastStatus()?.lastRun?.runId, before);
        });
        await edit("logits - 2", "logits - 3");
        await untilFound(document.uri, FAULT);
    });

    it("one that is wrong changes nothing, and keeps no other from holding", async () => {
        const { uri } = await open("wrong.py");
        await withSettings({ severity: { DG101: "grave" }, ignore: ["DG1"] }, async () => {
            await until(() => !has(uri, "DG101"), "the finding gone");
        });
    });
});
