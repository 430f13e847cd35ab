/** The output channel, with levels, that the extension and the server share. */

import * as vscode from "vscode";

export const log = vscode.window.createOutputChannel("drygrad", { log: true });

/** Say that something the user asked for did not happen, with a way to the log. */
export async function tell(message: string): Promise<void> {
    const show = vscode.l10n.t("Show Logs");
    if ((await vscode.window.showErrorMessage(message, show)) === show) {
        log.show();
    }
}
