/** The status item: device, workers, and the last run in a few words. */

import * as vscode from "vscode";
import { State } from "vscode-languageclient/node";
import { chosenLaunch } from "./launches";
import { Status } from "./protocol";

const WORDS: Record<string, string> = {
    starting: vscode.l10n.t("starting the worker"),
    ready: vscode.l10n.t("ready"),
    busy: vscode.l10n.t("running"),
    "backing-off": vscode.l10n.t("the worker ended; it restarts shortly"),
    failed: vscode.l10n.t("the worker cannot be started"),
    stopped: vscode.l10n.t("no worker yet"),
};

const LINKS = [
    [vscode.l10n.t("Last result"), "showResult"],
    [vscode.l10n.t("Device"), "selectDevice"],
    [vscode.l10n.t("Launch"), "selectLaunch"],
    [vscode.l10n.t("Log"), "showLogs"],
    [vscode.l10n.t("Restart"), "restartServer"],
] as const;

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
        text.isTrusted = { enabledCommands: LINKS.map(([, command]) => `drygrad.${command}`) };
        text.appendMarkdown("**drygrad**\n\n");
        for (const line of this.lines()) {
            text.appendMarkdown("- ").appendText(line).appendMarkdown("\n");
        }
        text.appendMarkdown(`\n${LINKS.map(([title, command]) => `[${title}](command:drygrad.${command})`).join(" · ")}`);
        return text;
    }

    private lines(): string[] {
        if (this.server !== State.Running) {
            return [this.server === State.Starting ? vscode.l10n.t("The server is starting.") : vscode.l10n.t("The server is not running.")];
        }
        if (!vscode.workspace.isTrusted) {
            return [vscode.l10n.t("Static checks only: trust this workspace to allow dry runs.")];
        }
        const status = this.status;
        if (!status) {
            return [vscode.l10n.t("Static checks are on. The worker starts with the first dry run.")];
        }
        const { state, why } = status.worker;
        const lines = [vscode.l10n.t("Worker: {0}", `${WORDS[state] ?? state}${why ? ` (${why})` : ""}`)];
        if (status.interpreter) {
            lines.push(vscode.l10n.t("Interpreter: {0}", `${status.interpreter}${status.torch ? `, torch ${status.torch}` : ""}`));
        }
        const launch = chosenLaunch();
        if (launch) {
            lines.push(vscode.l10n.t("Launch: {0}", launch));
        }
        if (status.lastRun) {
            lines.push(vscode.l10n.t("Last run: {0}", status.lastRun.text));
        }
        return lines;
    }

    dispose(): void {
        this.item.dispose();
    }
}
