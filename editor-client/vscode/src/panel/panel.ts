/** The result panel: the last run as a page beside the code. It loads nothing from the network. */

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { RUN, RunAnswer, RunReport, Status } from "../protocol";
import { Server } from "../server";
import { targetName } from "./words";
import { FromView, ToView } from "./messages";

export class ResultPanel implements vscode.Disposable {
    private panel: vscode.WebviewPanel | null = null;
    private last: string | null = null;
    private changes = 0;
    private shown: RunReport[] = [];

    constructor(
        private readonly context: vscode.ExtensionContext,
        private readonly server: Server,
    ) {}

    /** Take note of the run that ended last, or of what it has told since; an open panel follows. A cancelled one has nothing to show. */
    runEnded({ lastRun }: Status): void {
        if (!lastRun || lastRun.outcome === "cancelled") {
            return;
        }
        const changes = lastRun.changes ?? 0;
        if (lastRun.runId !== this.last || changes !== this.changes) {
            this.last = lastRun.runId;
            this.changes = changes;
            if (this.panel) {
                void this.refresh();
            }
        }
    }

    async show(): Promise<void> {
        if (!this.last) {
            void vscode.window.showInformationMessage("No dry run yet. Press ▶ Dry-run above a function first.");
            return;
        }
        this.panel ??= this.open();
        this.panel.reveal(vscode.ViewColumn.Beside, true);
        await this.refresh();
    }

    private open(): vscode.WebviewPanel {
        const panel = vscode.window.createWebviewPanel(
            "drygrad.result",
            "Dry run",
            { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
            { enableScripts: true, localResourceRoots: [this.file("dist"), this.file("media")] },
        );
        panel.iconPath = this.file("media", "icon.png");
        panel.webview.html = this.page(panel.webview);
        panel.webview.onDidReceiveMessage((message: FromView) => this.received(message));
        panel.onDidDispose(() => (this.panel = null));
        return panel;
    }

    private received(message: FromView): void {
        if (message.type === "ready") {
            void this.refresh();
        } else {
            void reveal(message.path, message.line);
        }
    }

    private async refresh(): Promise<void> {
        const answer = await this.server.running?.sendRequest<RunAnswer | null>(RUN, { runId: this.last });
        const [first] = answer?.runs ?? [];
        if (!answer || !first || !this.panel) {
            return;
        }
        this.shown = answer.runs;
        this.panel.title = `Dry run: ${targetName(first)}`;
        const message: ToView = { type: "runs", runs: answer.runs };
        await this.panel.webview.postMessage(message);
    }

    /** The reports that the panel shows; for tests. */
    get reports(): RunReport[] {
        return this.shown;
    }

    private file(...parts: string[]): vscode.Uri {
        return vscode.Uri.joinPath(this.context.extensionUri, ...parts);
    }

    private page(webview: vscode.Webview): string {
        const nonce = randomBytes(16).toString("base64");
        const policy = `default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`;
        return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<link rel="stylesheet" href="${webview.asWebviewUri(this.file("media", "panel.css")).toString()}">
</head>
<body>
<main id="report"></main>
<script nonce="${nonce}" src="${webview.asWebviewUri(this.file("dist", "panel.js")).toString()}"></script>
</body>
</html>`;
    }

    dispose(): void {
        this.panel?.dispose();
    }
}

async function reveal(path: string, line: number): Promise<void> {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.file(path));
    const place = new vscode.Range(line - 1, 0, line - 1, 0);
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.One, selection: place });
}
