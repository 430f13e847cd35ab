/** The output channel: what the server says, with its level, and as much of it as is wanted. */

import { strict as assert } from "node:assert";
import * as vscode from "vscode";
import { drygrad, ran, set, show, until, untilFound } from "../support";
import { MENDABLE, RUNNABLE, WRONG } from "./programs";

/** The channel's text; it is a document once it has been shown. */
const text = (): string => {
    const channel = ({ uri }: vscode.TextDocument): boolean => uri.scheme === "output" && uri.path.includes("drygrad.drygrad.drygrad");
    return vscode.workspace.textDocuments.find(channel)?.getText() ?? "";
};

/** The part of the channel's text that comes while something is done. */
async function written(action: () => Promise<void>, expected: RegExp): Promise<void> {
    const before = text().length;
    await action();
    await until(() => expected.test(text().slice(before)), `${expected} in the log; there is:\n${text().slice(before)}`);
}

async function run(): Promise<void> {
    await show("log.py", RUNNABLE, "return F");
    await ran("drygrad.dryRunFunction");
}

describe("the log", () => {
    before(async () => {
        await drygrad();
        await vscode.commands.executeCommand("drygrad.showLogs");
        await until(() => text(), "the channel");
    });

    it("tells what the server says, once and with its level", async () => {
        const before = text().length;
        await written(run, /\[info\] run-\d+ of loss: ✗/);
        const restart = async (): Promise<void> => vscode.commands.executeCommand("drygrad.restartServer");
        await written(restart, /\[info\] starting /); // now nothing of that run can still come
        assert.equal(text().slice(before).match(/run-\d+ of loss/g)?.length, 1, text());
        assert.doesNotMatch(text().slice(before), /\[error\]/);
    });

    it("tells of errors as errors", async () => {
        const { server } = await drygrad();
        const wrong = { uri: 5 };
        await written(async () => {
            await server.running?.sendRequest("workspace/executeCommand", { command: "drygrad.dryRun", arguments: [wrong] }).catch(() => {});
        }, /\[error\] /);
    });

    it("tells more at the level that `logLevel` sets", async () => {
        await set("logLevel", "debug");
        await written(async () => {
            await show("fixes.py", MENDABLE, "torch.exp");
            await ran("drygrad.dryRunFunction");
        }, /DG101 Replace .clamp_. with .clamp.: verified/);
        await set("logLevel", undefined);
    });

    it("tells what is said between editor and server where `trace.server` is set", async () => {
        const { uri } = await show("trace.py", WRONG);
        await untilFound(uri, "DG101");
        await set("trace.server", "messages");
        await written(run, /textDocument\/codeLens/);
        await set("trace.server", undefined);
    });
});
