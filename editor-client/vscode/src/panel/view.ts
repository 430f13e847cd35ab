/** The script of the result panel: draws a report. */

import { RunReport } from "../protocol";
import { element, section, sentence } from "./dom";
import { gradients } from "./gradients";
import { largestLines, overTime } from "./memory";
import { FromView, ToView } from "./messages";
import { sourceWithShapes } from "./source";
import { bytes, deviceWords, duration, outcomeWords, targetName } from "./words";

declare function acquireVsCodeApi(): { postMessage(message: FromView): void };

const vscode = acquireVsCodeApi();
const root = document.getElementById("report") as HTMLElement;

function reveal(path: string, line: number): void {
    vscode.postMessage({ type: "reveal", path, line });
}

function draw(report: RunReport): HTMLElement {
    const path = report.path ?? "";
    return element(
        "article",
        {},
        header(report),
        ...findings(report),
        ...inputs(report),
        ...relations(report),
        ...sourceWithShapes(report, (line) => reveal(path, line)),
        ...overTime(report),
        ...largestLines(report, reveal),
        ...syncs(report),
        ...gradients(report),
        ...notes(report),
        ...output(report),
    );
}

function header(report: RunReport): HTMLElement {
    const [mood, words] = outcomeWords(report);
    const facts: [string, string | null][] = [
        ["device", deviceWords(report.device)],
        ["time", duration(report.seconds)],
        ["peak memory", report.peak_memory_bytes ? bytes(report.peak_memory_bytes) : null],
        ["waits and copies", String(report.syncs.reduce((sum, row) => sum + row.count, 0))],
        ["torch", report.torch],
        ["seed", String(report.seed)],
    ];
    return element(
        "header",
        {},
        element("h1", {}, targetName(report)),
        element("p", { class: `outcome ${mood}` }, words),
        element(
            "dl",
            { class: "facts" },
            ...facts
                .filter(([, value]) => value)
                .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value ?? ""))),
        ),
    );
}

function findings(report: RunReport): HTMLElement[] {
    const found = (report.findings ?? []).map((finding) => {
        const item = element(
            "li",
            { class: `finding ${finding.severity}` },
            element("span", { class: "code" }, finding.code),
            element("button", { class: "line", title: "Go to the line" }, `line ${finding.line}`),
            element("span", { class: "message" }, ...sentence(finding.message)),
        );
        item.querySelector("button")?.addEventListener("click", () => reveal(report.path ?? "", finding.line));
        return item;
    });
    const refuted = report.refuted.map((one) =>
        element(
            "li",
            { class: "finding refuted" },
            element("span", { class: "code" }, one.code),
            element("span", { class: "message" }, `did not happen at line ${one.line}`),
        ),
    );
    const all = [...found, ...refuted];
    return all.length ? [section("Findings", element("ul", { class: "findings" }, ...all))] : [];
}

function inputs(report: RunReport): HTMLElement[] {
    const rows = report.inputs.map((input) => [input.name, input.value, input.source]);
    return rows.length ? [section("Inputs", table([["name", "code"], ["value", "code"], ["from", ""]], rows))] : [];
}

/** What must hold between two runs: broken and where, held, or not tried and why. */
function relations(report: RunReport): HTMLElement[] {
    const order = ["broken", "held", "not-tried"];
    const tried = [...(report.experiments ?? [])].sort((a, b) => order.indexOf(a.outcome) - order.indexOf(b.outcome));
    const line = (code: string): string => {
        const found = report.findings?.find((finding) => finding.code === code);
        return found ? `line ${found.line}` : "";
    };
    const rows = tried.map((one) => [one.name, one.outcome.replace("-", " "), one.why ?? line(one.code), one.code]);
    const columns: Column[] = [["what must hold", ""], ["", "tried"], ["", ""], ["code", "code"]];
    return rows.length ? [section("Between two runs", table(columns, rows, tried.map((one) => one.outcome)))] : [];
}

function syncs(report: RunReport): HTMLElement[] {
    const kinds: Record<string, string> = { sync: "wait", h2d: "copy to the device", d2h: "copy to the host" };
    const rows = report.syncs.map((row) => [`line ${row.line}`, kinds[row.kind] ?? row.kind, row.op, `${row.count} ×`]);
    const columns: Column[] = [["where", ""], ["what", ""], ["operation", "code"], ["times", ""]];
    return rows.length ? [section("Waits and copies", table(columns, rows))] : [];
}

function notes(report: RunReport): HTMLElement[] {
    const items = report.notes.map((note) => element("li", {}, ...sentence(note)));
    return items.length ? [section("Notes", element("ul", {}, ...items))] : [];
}

function output(report: RunReport): HTMLElement[] {
    const text = report.output?.text;
    return text ? [section("Printed", element("pre", {}, text))] : [];
}

/** The title of a column, and the class of its cells. */
type Column = [string, string];

function table(columns: Column[], rows: string[][], kinds: string[] = []): HTMLElement {
    const cells = (row: string[]): HTMLElement[] => row.map((cell, index) => element("td", { class: columns[index]?.[1] ?? "" }, cell));
    return element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ...columns.map(([title]) => element("th", {}, title)))),
        element("tbody", {}, ...rows.map((row, index) => element("tr", { class: kinds[index] ?? "" }, ...cells(row)))),
    );
}

window.addEventListener("message", (event: MessageEvent<ToView>) => root.replaceChildren(...event.data.runs.map(draw)));
vscode.postMessage({ type: "ready" });
