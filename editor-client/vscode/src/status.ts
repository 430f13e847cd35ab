/** The status item: device, workers, and the last run in a few words. */

import * as vscode from "vscode";
import { State } from "vscode-languageclient/node";
import { chosenLaunch } from "./launches";
import { Status } from "./protocol";

const WORDS: Record<string, string> = {
    starting: "starting the worker",
    ready: "ready",
    busy: "running",
    "backing-off": "the worker ended; it starts again shortly",
    failed: "the worker cannot be started",
    stopped: "no worker yet",
};

const LINKED = ["showResult", "selectDevice", "selectLaunch", "showLogs", "restartServer"].map((name) => `drygrad.${name}`);

const ICONS: Record<string, string> = { passed: "check", cancelled: "circle-slash", "no-inputs": "question" };

export class StatusItem implements vscode.Disposable {
    private readonly item = vscode.window.createStatusBarItem("drygrad.status", vscode.StatusBarAlignment.Right, 90);
    private status: Status | null = null;
    private server = State.Starting;

    constructor() {
        this.item.name = "drygrad";
        this.item.show();
        this.render();
    }

    /** What the item shows, and what its tooltip says. */
    get text(): { item: string; lines: string[] } {
        return { item: this.item.text, lines: this.lines() };
    }

    update(status: Status): void {
        this.status = status;
        this.render();
    }

    serverIs(state: State): void {
        this.server = state;
        if (state !== State.Running) {
            this.status = null;
        }
        this.render();
    }

    private render(): void {
        this.item.text = `$(${this.icon()}) drygrad${this.short()}`;
        this.item.tooltip = this.tooltip();
        this.item.command = this.status?.lastRun ? "drygrad.showResult" : "drygrad.showLogs";
        const failed = this.server === State.Stopped || this.status?.worker.state === "failed";
        this.item.backgroundColor = failed ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
    }

    private icon(): string {
        if (this.server === State.Starting || this.status?.running.length) {
            return "sync~spin";
        }
        if (this.server === State.Stopped || this.status?.worker.state === "failed") {
            return "warning";
        }
        const outcome = this.status?.lastRun?.outcome;
        return outcome === undefined ? "pulse" : (ICONS[outcome] ?? "error");
    }

    private short(): string {
        const device = this.status?.device;
        return device ? ` · ${device}` : "";
    }

    private tooltip(): vscode.MarkdownString {
        const text = new vscode.MarkdownString(undefined, true);
        text.isTrusted = { enabledCommands: LINKED };
        text.appendMarkdown("**drygrad**\n\n");
        for (const line of this.lines()) {
            text.appendMarkdown("- ").appendText(line).appendMarkdown("\n");
        }
        text.appendMarkdown("\n[Last result](command:drygrad.showResult) · [Device](command:drygrad.selectDevice) · ");
        text.appendMarkdown("[Launch](command:drygrad.selectLaunch) · ");
        text.appendMarkdown("[Log](command:drygrad.showLogs) · [Restart](command:drygrad.restartServer)");
        return text;
    }

    private lines(): string[] {
        if (this.server !== State.Running) {
            return [this.server === State.Starting ? "The server is starting." : "The server is not running."];
        }
        if (!vscode.workspace.isTrusted) {
            return ["Static checks only: a dry run waits until you trust this workspace."];
        }
        const status = this.status;
        if (!status) {
            return ["Static checks are on. The worker starts with the first dry run."];
        }
        const { state, why } = status.worker;
        const lines = [`Worker: ${WORDS[state] ?? state}${why ? ` (${why})` : ""}`];
        if (status.interpreter) {
            lines.push(`Interpreter: ${status.interpreter}${status.torch ? `, torch ${status.torch}` : ""}`);
        }
        const launch = chosenLaunch();
        if (launch) {
            lines.push(`Launch: ${launch}`);
        }
        if (status.lastRun) {
            lines.push(`Last run: ${status.lastRun.text}`);
        }
        return lines;
    }

    dispose(): void {
        this.item.dispose();
    }
}
