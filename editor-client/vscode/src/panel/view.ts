/** The script of the result panel: draws one result, and keeps what is shown across reloads of the window. */

import { Results } from "../protocol";
import { element } from "./dom";
import { experiments, output } from "./experiments";
import { gradients } from "./gradients";
import { header } from "./header";
import { chosen } from "./history";
import { largestLines, overTime, syncs } from "./memory";
import { FromView, Model, ToView } from "./messages";
import { overview, Shown } from "./overview";
import { sourceWithShapes } from "./source";
import { Tab, tabs } from "./tabs";
import { t } from "./l10n";

/** What is kept: the results, and what of them is looked at; `at` null means the newest run. */
interface State {
    results: Results;
    tab: string;
    at: number | null;
    number: number;
}

declare function acquireVsCodeApi(): { postMessage(message: FromView): void; getState(): State | undefined; setState(state: State): void };

const vscode = acquireVsCodeApi();
const root = document.getElementById("report") as HTMLElement;
const kept = vscode.getState();
let model: Model | null = kept ? { results: kept.results, phase: null, runs: false } : null;
let tab = kept?.tab ?? "overview";
let at: number | null = kept?.at ?? null;
let number = kept?.number ?? 0;

const send = (message: FromView): void => vscode.postMessage(message);

function draw(): void {
    const shown = model && current(model);
    if (!model || !shown) {
        return;
    }
    const { results, phase } = model;
    vscode.setState({ results, tab, at, number });
    const focused = document.activeElement?.id;
    const top = document.documentElement.scrollTop;
    const look = (moment: number, index: number): void => {
        at = moment === results.entries[0]?.at ? null : moment;
        number = index;
        draw();
    };
    const choose = (id: string): void => {
        tab = id;
        draw();
    };
    root.replaceChildren(element("article", {}, header(results, shown, phase, look), ...tabs(parts(shown), tab, choose)));
    document.documentElement.scrollTop = top;
    if (focused) {
        document.getElementById(focused)?.focus();
    }
}

function current({ results, phase, runs }: Model): Shown | null {
    const [entry, earlier] = chosen(results, at);
    const index = Math.min(number, (entry?.runs.length ?? 1) - 1);
    const report = entry?.runs[index];
    const acts = runs && phase === null && entry === results.entries[0];
    return entry && report ? { report, entry, earlier, number: index, acts, send } : null;
}

function parts(shown: Shown): Tab[] {
    const { report } = shown;
    const reveal = (path: string, line: number): void => send({ type: "reveal", path, line });
    const own = (line: number): void => reveal(report.path ?? "", line);
    const broken = (report.experiments ?? []).filter((one) => one.outcome === "broken").length;
    return [
        { id: "overview", title: t("Overview"), content: () => overview(shown), empty: "" },
        { id: "shapes", title: t("Shapes"), content: () => sourceWithShapes(report, own), empty: t("No line of the function ran.") },
        {
            id: "memory",
            title: t("Memory"),
            content: () => [...overTime(report), ...largestLines(report, reveal), ...syncs(report, reveal)],
            empty: t("No tensor was allocated."),
        },
        {
            id: "gradients",
            title: t("Gradients"),
            content: () => gradients(report),
            empty: t("No gradients: no optimizer step ran."),
        },
        {
            id: "experiments",
            title: t("Experiments"),
            count: broken,
            content: () => experiments(report, own),
            empty: t("No experiments: they follow a run that passed."),
        },
        { id: "output", title: t("Output"), content: () => output(report), empty: t("Nothing was printed.") },
    ];
}

window.addEventListener("message", (event: MessageEvent<ToView>) => {
    const before = model?.results;
    model = event.data.model;
    const { uri, qualname, entries } = model.results;
    if (before && (before.uri !== uri || before.qualname !== qualname || before.entries[0]?.at !== entries[0]?.at)) {
        [at, number] = [null, 0];
    }
    draw();
});
draw();
send({ type: "ready" });
