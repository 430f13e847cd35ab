/** The result panel: the runs of one target as a page beside the code. It loads nothing from the network. */

import * as vscode from "vscode";
import { explain } from "../explain";
import { selectLaunch } from "../launches";
import { LastRun, RESULTS, Results, RunReport, Status, Target } from "../protocol";
import { Server } from "../server";
import { applyFix, cancel, dryRun, reveal, writeInputs } from "./actions";
import { FromView, ToView } from "./messages";
import { joined } from "./history";
import { page } from "./page";
import { targetName } from "./words";

const KIND = "drygrad.result";

const same = (one: Target, other: Target): boolean => one.uri === other.uri && one.qualname === other.qualname;

const isSameRun = (one: LastRun, other: LastRun | null): boolean => one.runId === other?.runId && one.target === other.target;

/** Return a text as it stands in an attribute of a page. */
export class ResultPanel implements vscode.WebviewPanelSerializer, vscode.Disposable {
    private panel: vscode.WebviewPanel | null = null;
    private status: Status | null = null;
    private shown: Results | null = null;
    private readonly listeners: vscode.Disposable[];
    private readonly serializer = vscode.window.registerWebviewPanelSerializer(KIND, this);

    constructor(
        private readonly context: vscode.ExtensionContext,
        private readonly server: Server,
    ) {
        this.listeners = [server.onStarted(() => void this.refresh(this.shown)), server.onState(() => void this.post())];
    }

    /** Follow the runs: an open panel shows what a user asks for, and what is told of its own target. */
    statusChanged(status: Status): void {
        const before = this.status?.lastRun ?? null;
        this.status = status;
        const last = status.lastRun;
        if (!this.panel || !last || last.outcome === "cancelled" || (isSameRun(last, before) && last.changes === before?.changes)) {
            void this.post();
            return;
        }
        const asked = last.asked && last.uri !== undefined && !isSameRun(last, before);
        void this.refresh(asked ? { uri: last.uri ?? "", qualname: last.target } : this.shown);
    }

    /** Show the results of a target, or of the one that was run last. */
    async show(target: Target | null = null): Promise<void> {
        const results = await this.ask(target);
        if (!results?.entries.length) {
            void vscode.window.showInformationMessage(vscode.l10n.t("No dry run yet. Press ▶ Dry-run above a function first."));
            return;
        }
        this.shown = results;
        this.panel ??= this.opened();
        this.panel.reveal(vscode.ViewColumn.Beside, true);
        await this.post();
    }

    /** Bring a panel back that was open when the window was closed or reloaded. */
    deserializeWebviewPanel(panel: vscode.WebviewPanel, state: unknown): Promise<void> {
        this.panel?.dispose();
        this.shown = (state as { results?: Results } | undefined)?.results ?? null;
        this.panel = this.prepared(panel);
        void this.refresh(this.shown); // the page gets no message before this has returned
        return Promise.resolve();
    }

    /** The reports that the panel shows; for tests. */
    get reports(): RunReport[] {
        return this.shown?.entries[0]?.runs ?? [];
    }

    private opened(): vscode.WebviewPanel {
        const place = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
        return this.prepared(vscode.window.createWebviewPanel(KIND, vscode.l10n.t("Dry run"), place));
    }

    private prepared(panel: vscode.WebviewPanel): vscode.WebviewPanel {
        panel.webview.options = { enableScripts: true, localResourceRoots: [this.file("dist"), this.file("media")] };
        panel.iconPath = this.file("media", "icon.png");
        panel.webview.html = page(panel.webview, this.context.extensionUri, vscode.l10n.t("Dry run"), ["panel.css"], "panel.js");
        panel.webview.onDidReceiveMessage((message: FromView) => void this.received(message));
        panel.onDidDispose(() => (this.panel = null));
        return panel;
    }

    private async received(message: FromView): Promise<void> {
        const shown = this.shown;
        switch (message.type) {
            case "ready":
                return this.post();
            case "reveal":
                return reveal(vscode.Uri.file(message.path), message.line);
            case "select":
                return this.refresh(message.target);
            case "launch":
                return (await selectLaunch(this.server)) ? this.run() : undefined;
            case "explain":
                return explain(this.server, message.code);
            case "cancel":
                return cancel(this.server, this.status?.phases.find(({ uri, target }) => shown && same({ uri, qualname: target }, shown)));
            case "run":
                return this.run(message);
            case "write":
                return shown && (await writeInputs(this.server, shown, message)) ? this.run() : undefined;
            case "fix":
                return shown && (await applyFix(shown, message.finding, message.title)) ? this.run() : undefined;
        }
    }

    private async run(how: { device?: string; inputs?: string } = {}): Promise<void> {
        if (this.shown) {
            await dryRun(this.server, this.shown, how);
        }
    }

    private async refresh(target: Target | null): Promise<void> {
        this.shown = joined(await this.ask(target), this.shown);
        await this.post();
    }

    private async ask(target: Target | null): Promise<Results | null> {
        const params = target ? { uri: target.uri, qualname: target.qualname } : {};
        const answer = await this.server.running?.sendRequest<Results | null>(RESULTS, params).catch(() => null);
        return answer ?? null;
    }

    private async post(): Promise<void> {
        const results = this.shown;
        if (!this.panel || !results) {
            return;
        }
        const [newest] = results.entries;
        this.panel.title = newest?.runs[0] ? vscode.l10n.t("Dry run: {0}", targetName(newest.runs[0])) : vscode.l10n.t("Dry run");
        const own = this.status?.phases.find(({ uri, target }) => same({ uri, qualname: target }, results));
        const model = { results, phase: own?.phase ?? null, runs: vscode.workspace.isTrusted && this.server.running !== null };
        await this.panel.webview.postMessage({ type: "model", model } satisfies ToView);
    }

    private file(...parts: string[]): vscode.Uri {
        return vscode.Uri.joinPath(this.context.extensionUri, ...parts);
    }

    dispose(): void {
        vscode.Disposable.from(this.serializer, ...this.listeners).dispose();
        this.panel?.dispose();
    }
}
