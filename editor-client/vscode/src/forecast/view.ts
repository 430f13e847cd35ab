/** The script of a forecast's page: draws it, and keeps what is shown across reloads of the window. */

import { button, choice, element } from "../panel/dom";
import { t } from "../panel/l10n";
import { tabs } from "../panel/tabs";
import { clock, nameOf } from "../panel/words";
import { changes, facts, inputs, lines, parts, plot, tensors, time } from "./parts";
import { Forecast, FromPage, Model } from "./protocol";

interface State {
    forecast: Forecast;
    tab: string;
}

declare function acquireVsCodeApi(): { postMessage(message: FromPage): void; getState(): State | undefined; setState(state: State): void };

const vscode = acquireVsCodeApi();
const root = document.getElementById("report") as HTMLElement;
const kept = vscode.getState();
let model: Model | null = kept ? { forecast: kept.forecast, phase: null, runs: false, gpus: [] } : null;
let tab = kept?.tab ?? "lines";

const send = (message: FromPage): void => vscode.postMessage(message);
const reveal = (path: string, line: number): void => send({ type: "reveal", path, line });

function draw(): void {
    if (!model) {
        return;
    }
    const { forecast } = model;
    vscode.setState({ forecast, tab });
    const focused = document.activeElement?.id;
    const top = document.documentElement.scrollTop;
    root.replaceChildren(element("article", {}, header(model), ...body(model)));
    document.documentElement.scrollTop = top;
    if (focused) {
        document.getElementById(focused)?.focus();
    }
}

function header({ forecast, phase, runs, gpus }: Model): HTMLElement {
    const told = forecast.forecast.forecast;
    const mood = !told ? "open" : told.fits === false ? "bad" : told.fits ? "good" : "open";
    const sign = { good: "✓", bad: "✗", open: "" }[mood];
    const when = element("span", { class: "when" }, ` ${t("at {0}", clock(forecast.at))}`);
    const outcome = element("p", { class: `outcome ${mood}` }, `${sign} ${forecast.text}`.trim(), when);
    const now = element("p", { class: "phase-now" }, phase === null ? "" : `${phase} …`);
    const live = element("div", { role: "status", "aria-live": "polite" }, outcome, now);
    return element("header", {}, element("h1", {}, nameOf(forecast)), live, toolbar(forecast, phase !== null, runs, gpus));
}

function toolbar({ forecast }: Forecast, running: boolean, runs: boolean, gpus: string[]): HTMLElement {
    const gpu = forecast.gpu?.name ?? null;
    const disabled: Record<string, string> = runs && !running ? {} : { disabled: "" };
    const make = (whatIf: boolean, on: string | null): void => send({ type: "forecast", whatIf, gpu: on });
    const again = running
        ? button(t("Cancel"), { class: "primary", id: "again" }, () => send({ type: "cancel" }))
        : button(t("▶ Forecast again"), { class: "primary", id: "again", ...disabled }, () => make(false, gpu));
    const title = t("Trace it again with each change that could take less memory");
    const whatIf = button(t("What if …"), { class: "secondary", id: "what-if", title, ...disabled }, () => make(true, gpu));
    const names = gpu === null || gpus.includes(gpu) ? gpus : [gpu, ...gpus];
    const options = [...(gpu === null ? [{ value: "", text: t("no GPU chosen") }] : []), ...names.map((name) => ({ value: name, text: name }))];
    const on = choice(t("GPU"), options, gpu ?? "", (name) => name && make(forecast.explored, name));
    on.toggleAttribute("disabled", "disabled" in disabled);
    return element("div", { role: "toolbar", class: "row", "aria-label": t("What can be done") }, again, whatIf, element("label", {}, t("GPU"), " ", on));
}

function body(shown: Model): HTMLElement[] {
    const { forecast, explored } = shown.forecast.forecast;
    if (!forecast) {
        return inputs(shown.forecast);
    }
    const own = shown.forecast;
    const all = [
        { id: "lines", title: t("Lines"), content: () => lines(own, reveal), empty: t("No line holds anything at the peak.") },
        { id: "tensors", title: t("Tensors"), content: () => tensors(own, reveal), empty: t("There are no tensors at the peak.") },
        {
            id: "changes",
            title: t("What if"),
            count: forecast.what_if.length,
            content: () => changes(own, shown.runs && shown.phase === null, (change) => send({ type: "apply", change })),
            empty: explored ? t("No change makes a difference.") : t("Press “What if …” to trace what could take less memory."),
        },
        { id: "time", title: t("Time"), content: () => time(own, reveal), empty: t("Choose a GPU: a bound on time needs its rates.") },
        { id: "inputs", title: t("Inputs"), content: () => inputs(own), empty: t("It has no inputs.") },
    ];
    const choose = (id: string): void => {
        tab = id;
        draw();
    };
    return [facts(own), ...plot(own), ...parts(own), ...tabs(all, tab, choose)];
}

window.addEventListener("message", (event: MessageEvent<{ type: "model"; model: Model }>) => {
    const before = model?.forecast;
    model = event.data.model;
    if (before && !before.forecast.explored && model.forecast.forecast.explored) {
        tab = "changes";
    }
    draw();
});
draw();
send({ type: "ready" });
