/** The launch of a workspace: how its programs are started that are dry-run, chosen among those that the project has. */

import * as vscode from "vscode";
import { execute } from "./execute";
import { Launch } from "./protocol";
import { Server } from "./server";

interface Choice extends vscode.QuickPickItem {
    launch?: string;
}

/** The launch that is chosen; null where each program is started as the project says. */
export function chosenLaunch(): string | null {
    return vscode.workspace.getConfiguration("drygrad").get<string | null>("launch") || null;
}

/** Let the user choose one, and keep it with the workspace; say whether one was chosen. */
export async function selectLaunch(server: Server): Promise<boolean> {
    const uri = vscode.window.activeTextEditor?.document.uri ?? vscode.workspace.workspaceFolders?.[0]?.uri;
    const found = await execute(server, "drygrad.launches", uri ? { uri: uri.toString() } : null);
    if (!Array.isArray(found)) {
        return false;
    }
    const current = chosenLaunch();
    const plain: Choice = { label: vscode.l10n.t("none"), description: vscode.l10n.t("as the project sets it, else without arguments") };
    const choices = [plain, ...(found as Launch[]).map((launch) => choice(launch, current))];
    const chosen = await vscode.window.showQuickPick(choices, {
        title: vscode.l10n.t("How should dry runs start the program?"),
        matchOnDescription: true,
        matchOnDetail: true,
    });
    if (chosen) {
        const configuration = vscode.workspace.getConfiguration("drygrad", uri);
        await configuration.update("launch", chosen.launch, vscode.ConfigurationTarget.Workspace);
    }
    return chosen !== undefined;
}

function choice(launch: Launch, current: string | null): Choice {
    const open = launch.toFillIn.length ? vscode.l10n.t(" (to fill in: {0})", launch.toFillIn.join(" ")) : "";
    const present = current === launch.id || (current !== null && current === launch.name);
    return {
        label: launch.name ?? launch.id,
        description: [launch.name && launch.id, launch.ranks > 1 && vscode.l10n.t("{0} processes", launch.ranks)].filter(Boolean).join(" · "),
        detail: present ? vscode.l10n.t("current: {0}", `${launch.command}${open}`) : `${launch.command}${open}`,
        launch: launch.id,
    };
}
