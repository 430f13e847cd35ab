/** The panel of forecasts: the last one of a target as a page beside the code. It loads nothing from the network. */

import * as vscode from "vscode";
import { execute } from "../execute";
import { cancel, reveal } from "../panel/actions";
import { page } from "../panel/page";
import { nameOf } from "../panel/words";
import { Status, Target } from "../protocol";
import { Server } from "../server";
import { FORECAST, Forecast, FromPage, Model } from "./protocol";

const KIND = "drygrad.forecast";

const same = (one: Target, other: Target): boolean => one.uri === other.uri && one.qualname === other.qualname;

export class ForecastPanel implements vscode.WebviewPanelSerializer, vscode.Disposable {
    private panel: vscode.WebviewPanel | null = null;
    private status: Status | null = null;
    private shown: Forecast | null = null;
    private gpus: string[] = [];
    private readonly serializer = vscode.window.registerWebviewPanelSerializer(KIND, this);
    private readonly listener: vscode.Disposable;

    constructor(
        private readonly context: vscode.ExtensionContext,
        private readonly server: Server,
    ) {
        this.listener = server.onState(() => void this.post());
    }

    /** The forecast that is shown; for tests. */
    get forecast(): Forecast | null {
        return this.shown;
    }

    /** Follow the forecasts: an open panel shows the one that was made last. */
    statusChanged(status: Status): void {
        const before = this.status?.lastForecast?.changes;
        this.status = status;
        const last = status.lastForecast;
        if (this.panel && last && last.changes !== before) {
            void this.refresh({ uri: last.uri, qualname: last.target });
        } else {
            void this.post();
        }
    }

    /** Show the forecast of a target, or the one that was made last. */
    async show(target: Target | null = null): Promise<void> {
        const found = await this.ask(target);
        if (!found) {
            void vscode.window.showInformationMessage(vscode.l10n.t("No forecast yet. Press ▶ Forecast above a function first."));
            return;
        }
        this.shown = found;
        const place = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
        this.panel ??= this.prepared(vscode.window.createWebviewPanel(KIND, vscode.l10n.t("Forecast"), place));
        this.panel.reveal(vscode.ViewColumn.Beside, true);
        await this.post();
    }

    /** Bring a panel back that was open when the window was closed or reloaded. */
    deserializeWebviewPanel(panel: vscode.WebviewPanel, state: unknown): Promise<void> {
        this.panel?.dispose();
        this.shown = (state as { forecast?: Forecast } | undefined)?.forecast ?? null;
        this.panel = this.prepared(panel);
        void this.post();
        return Promise.resolve();
    }

    private prepared(panel: vscode.WebviewPanel): vscode.WebviewPanel {
        panel.webview.options = { enableScripts: true, localResourceRoots: [this.file("dist"), this.file("media")] };
        panel.iconPath = this.file("media", "icon.png");
        panel.webview.html = page(panel.webview, this.context.extensionUri, vscode.l10n.t("Forecast"), ["panel.css", "forecast.css"], "forecast.js");
        panel.webview.onDidReceiveMessage((message: FromPage) => void this.received(message));
        panel.onDidDispose(() => (this.panel = null));
        return panel;
    }

    private async received(message: FromPage): Promise<void> {
        switch (message.type) {
            case "ready":
                return this.post();
            case "reveal":
                return reveal(vscode.Uri.file(message.path), message.line);
            case "cancel":
                return cancel(this.server, this.running());
            case "forecast":
                return this.make(message.whatIf, message.gpu);
            case "apply":
                return this.apply(message.change);
        }
    }

    private async make(whatIf: boolean, gpu: string | null): Promise<void> {
        if (this.shown) {
            await makeForecast(this.server, this.shown, { whatIf, gpu });
        }
    }

    /** Make a change that was traced in the text, then forecast that. */
    private async apply(change: string): Promise<void> {
        if (!this.shown) {
            return;
        }
        const { uri, qualname, forecast } = this.shown;
        await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
        const why = await execute(this.server, "drygrad.applyChange", { uri, qualname, change });
        if (typeof why === "string") {
            void vscode.window.showWarningMessage(why);
        } else {
            await this.make(false, forecast.gpu?.name ?? null);
        }
    }

    private async refresh(target: Target): Promise<void> {
        this.shown = (await this.ask(target)) ?? this.shown;
        await this.post();
    }

    private async ask(target: Target | null): Promise<Forecast | null> {
        const params = target ? { uri: target.uri, qualname: target.qualname } : {};
        const answer = await this.server.running?.sendRequest<Forecast | null>(FORECAST, params).catch(() => null);
        return answer ?? null;
    }

    private running(): Status["phases"][number] | undefined {
        const shown = this.shown;
        return this.status?.phases.find(({ uri, target }) => shown && same({ uri, qualname: target }, shown));
    }

    private async post(): Promise<void> {
        const forecast = this.shown;
        if (!this.panel || !forecast) {
            return;
        }
        if (!this.gpus.length && this.server.running) {
            this.gpus = (await gpusOf(this.server)).map(({ name }) => name);
        }
        this.panel.title = vscode.l10n.t("Forecast: {0}", nameOf(forecast));
        const runs = vscode.workspace.isTrusted && this.server.running !== null;
        const model: Model = { forecast, phase: this.running()?.phase ?? null, runs, gpus: this.gpus };
        await this.panel.webview.postMessage({ type: "model", model });
    }

    private file(...parts: string[]): vscode.Uri {
        return vscode.Uri.joinPath(this.context.extensionUri, ...parts);
    }

    dispose(): void {
        vscode.Disposable.from(this.serializer, this.listener).dispose();
        this.panel?.dispose();
    }
}

/** Ask the server for a forecast of a target. */
export async function makeForecast(server: Server, { uri, qualname }: Target, how: { whatIf: boolean; gpu?: string | null }): Promise<void> {
    await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
    await execute(server, "drygrad.forecast", { uri, qualname, script: qualname === null, whatIf: how.whatIf, gpu: how.gpu ?? null });
}

/** Return the GPUs that the server knows, with their memory in bytes. */
export async function gpusOf(server: Server): Promise<{ name: string; memory: number }[]> {
    const found = await execute(server, "drygrad.gpus", {});
    return Array.isArray(found) ? (found as { name: string; memory: number }[]) : [];
}
