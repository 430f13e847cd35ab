/** The commands of forecasts. */

import * as vscode from "vscode";
import { execute } from "../execute";
import { asTarget } from "../more";
import { bytes } from "../panel/words";
import { Server } from "../server";
import { ForecastPanel, gpusOf } from "./panel";

export function registerForecastCommands(context: vscode.ExtensionContext, server: Server, panel: ForecastPanel): void {
    const register = (name: string, action: (argument?: unknown) => unknown): void => {
        context.subscriptions.push(vscode.commands.registerCommand(`drygrad.${name}`, action));
    };
    register("forecastFunction", () => execute(server, "drygrad.forecast", atCursor(false)));
    register("forecastWhatIf", () => execute(server, "drygrad.forecast", atCursor(true)));
    register("showForecast", (target) => panel.show(asTarget(target)));
    register("selectGpu", () => selectGpu(server));
}

function atCursor(whatIf: boolean): object | null {
    const editor = vscode.window.activeTextEditor;
    if (editor?.document.languageId !== "python") {
        return null;
    }
    const { line, character } = editor.selection.active;
    const { uri, version } = editor.document;
    return { uri: uri.toString(), version, qualname: null, position: { line, character }, whatIf };
}

/** Let the user choose the GPU that forecasts are made for, by its name or by a size. */
async function selectGpu(server: Server): Promise<void> {
    const configuration = vscode.workspace.getConfiguration("drygrad");
    const current = configuration.get<string | null>("gpu");
    const named = (await gpusOf(server)).map(({ name, memory }) => ({ label: name, description: bytes(memory), picked: name === current }));
    const none = { label: vscode.l10n.t("none"), description: vscode.l10n.t("forecasts name the GPUs that have room") };
    const chosen = await vscode.window.showQuickPick([none, ...named], {
        title: vscode.l10n.t("Which GPU are forecasts made for?"),
        matchOnDescription: true,
    });
    if (chosen) {
        await configuration.update("gpu", chosen === none ? null : chosen.label, vscode.ConfigurationTarget.Global);
    }
}
