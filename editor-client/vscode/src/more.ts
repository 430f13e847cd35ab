/** The menu of a lens: other conditions for the next run, and what else there is to do with a function. */

import * as vscode from "vscode";
import { execute } from "./execute";
import { makeForecast } from "./forecast/panel";
import { selectLaunch } from "./launches";
import { dryRun, writeInputs } from "./panel/actions";
import { ResultPanel } from "./panel/panel";
import { RESULTS, Results, Target } from "./protocol";
import { Server } from "./server";

interface Choice extends vscode.QuickPickItem {
    act: () => unknown;
}

type Pinnable = Target & { pinned: boolean };

/** Read the argument of a lens; null where there is none. */
export function asTarget(given: unknown): Pinnable | null {
    const { uri, qualname, pinned } = (given ?? {}) as Partial<Pinnable>;
    return typeof uri === "string" ? { uri, qualname: qualname ?? null, pinned: pinned === true } : null;
}

export async function more(server: Server, panel: ResultPanel, target: Pinnable | null): Promise<void> {
    if (!target) {
        return;
    }
    const { uri, qualname, pinned } = target;
    const run = (device: string) => (): unknown => dryRun(server, target, { device });
    const choices: Choice[] = [
        { label: `$(play) ${vscode.l10n.t("Run with other inputs …")}`, act: () => withInputs(server, target) },
        { label: `$(rocket) ${vscode.l10n.t("Run with a launch …")}`, act: async () => (await selectLaunch(server)) && dryRun(server, target) },
        { label: `$(circuit-board) ${vscode.l10n.t("Run on the simulated GPU")}`, act: run("sim") },
        { label: `$(circuit-board) ${vscode.l10n.t("Run on a GPU")}`, act: run("cuda") },
        { label: `$(circuit-board) ${vscode.l10n.t("Run on the CPU")}`, act: run("cpu") },
        { label: `$(dashboard) ${vscode.l10n.t("Forecast memory and time")}`, act: () => makeForecast(server, target, { whatIf: false }) },
        { label: `$(beaker) ${vscode.l10n.t("Forecast with what-if …")}`, act: () => makeForecast(server, target, { whatIf: true }) },
        pinned
            ? { label: `$(pinned) ${vscode.l10n.t("Unpin")}`, description: vscode.l10n.t("do not run on save"), act: () => execute(server, "drygrad.unpin", { uri, qualname }) }
            : { label: `$(pin) ${vscode.l10n.t("Pin")}`, description: vscode.l10n.t("run on every save"), act: () => execute(server, "drygrad.pin", { uri, qualname }) },
        { label: `$(graph-line) ${vscode.l10n.t("Show the result")}`, act: () => panel.show(target) },
    ];
    const title = qualname ?? vscode.l10n.t("The script");
    await (await vscode.window.showQuickPick(choices, { title, matchOnDescription: true }))?.act();
}

/** Ask for inputs, and run with them: this once, or as a comment that stays. */
async function withInputs(server: Server, target: Target): Promise<void> {
    const { uri, qualname } = target;
    const known = await server.running?.sendRequest<Results | null>(RESULTS, { uri, qualname });
    const inputs = await vscode.window.showInputBox({
        title: qualname ? vscode.l10n.t("Inputs of {0}", qualname) : vscode.l10n.t("Inputs of the script"),
        value: known?.entries[0]?.runs[0]?.given ?? "",
        placeHolder: "x=torch.randn(8, 10), labels=torch.arange(8) % 4",
    });
    if (!inputs) {
        return;
    }
    const [once, keep] = [vscode.l10n.t("Run once"), vscode.l10n.t("Write above the function and run")];
    const how = await vscode.window.showQuickPick([once, keep], { title: inputs });
    if (how === once) {
        await dryRun(server, target, { inputs });
    } else if (how === keep && (await writeInputs(server, target, { inputs, number: 0 }))) {
        await dryRun(server, target);
    }
}
