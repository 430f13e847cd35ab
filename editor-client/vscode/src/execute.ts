/** The server's own commands; what keeps one from being done is told. */

import * as vscode from "vscode";
import { ExecuteCommandRequest } from "vscode-languageclient/node";
import { log } from "./log";
import { Server } from "./server";

/** Ask the server to do something; say why if it cannot. */
export async function execute(server: Server, command: string, argument: unknown): Promise<unknown> {
    const client = server.running;
    if (!client) {
        void offerRestart(server);
        return null;
    }
    if (argument === null) {
        void vscode.window.showInformationMessage(vscode.l10n.t("Open a Python file first."));
        return null;
    }
    try {
        return await client.sendRequest(ExecuteCommandRequest.type, { command, arguments: [argument] });
    } catch (error) {
        void vscode.window.showWarningMessage(error instanceof Error ? error.message : String(error));
        return null;
    }
}

async function offerRestart(server: Server): Promise<void> {
    const [restart, logs] = [vscode.l10n.t("Restart Server"), vscode.l10n.t("Show Logs")];
    const chosen = await vscode.window.showWarningMessage(vscode.l10n.t("drygrad is not running."), restart, logs);
    if (chosen === restart) {
        await server.restart();
    } else if (chosen === logs) {
        log.show();
    }
}
