/** What is to be seen first: findings with their fixes, what differs from the run before, the inputs, notes. */

import { Entry, RunFinding, RunReport } from "../protocol";
import { compared } from "./compare";
import { button, Child, Column, element, folded, lineButton, section, sentence, table } from "./dom";
import { FromView } from "./messages";
import { bytes, deviceWords, duration } from "./words";

export interface Shown {
    report: RunReport;
    entry: Entry;
    earlier: Entry | undefined;
    number: number;
    /** The newest run is shown, and nothing keeps another from being started. */
    acts: boolean;
    send: (message: FromView) => void;
}

export function overview(shown: Shown): HTMLElement[] {
    const { report, entry, earlier, number } = shown;
    return [facts(report), ...findings(shown), ...compared(entry, earlier, number), ...inputs(shown), ...notes(report)];
}

function facts(report: RunReport): HTMLElement {
    const covered = report.coverage;
    const all: [string, string | null][] = [
        ["device", report.device && deviceWords(report.device)],
        ["time", report.seconds === null ? null : duration(report.seconds)],
        ["peak memory", report.peak_memory_bytes ? bytes(report.peak_memory_bytes) : null],
        ["waits and copies", String(report.syncs.reduce((sum, row) => sum + row.count, 0))],
        ["lines run", covered ? `${covered.ran} of ${covered.lines}` : null],
        ["torch", report.torch],
        ["seed", report.seed === null ? null : String(report.seed)],
    ];
    const told = all.filter(([, value]) => value);
    const pairs = told.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value ?? "")));
    return element("dl", { class: "facts" }, ...pairs);
}

function findings(shown: Shown): HTMLElement[] {
    const { report } = shown;
    const found = (report.findings ?? []).map((finding) => item(finding, shown));
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

function item(finding: RunFinding, { report, acts, send }: Shown): HTMLElement {
    const explain = { class: "code", title: "Show the page of the rule", "aria-label": `${finding.code}: show the page of the rule` };
    const fixes = (finding.fixes ?? []).filter((fix) => fix.verified !== false);
    return element(
        "li",
        { class: `finding ${finding.severity}` },
        element("span", { class: "severity" }, finding.severity),
        button(finding.code, explain, () => send({ type: "explain", code: finding.code })),
        lineButton(finding.line, `line ${finding.line}`, () => send({ type: "reveal", path: report.path ?? "", line: finding.line })),
        element("p", { class: "message" }, ...sentence(finding.message)),
        ...(finding.detail ? [element("p", { class: "detail" }, ...folded(finding.detail))] : []),
        ...(fixes.length && acts ? [element("div", { class: "fixes" }, ...fixes.map((fix, index) => fixButton(fix, index === 0, finding, send)))] : []),
    );
}

type Fixes = NonNullable<RunFinding["fixes"]>;

function fixButton(fix: Fixes[number], first: boolean, finding: RunFinding, send: Shown["send"]): HTMLElement {
    const verdict = [...(fix.verified ? ["verified"] : []), ...(fix.safe ? [] : ["unsafe"])];
    const text = verdict.length ? `${fix.title} (${verdict.join(", ")})` : fix.title;
    const attributes = { class: first && fix.verified ? "primary" : "secondary", title: "Apply it, and run again" };
    const made = button("", attributes, () => send({ type: "fix", finding, title: fix.title }));
    made.append(...sentence(`Apply: ${text}`));
    return made;
}

function inputs(shown: Shown): HTMLElement[] {
    const { report } = shown;
    const rows: Child[][] = report.inputs.map((input) => [input.name, element("span", {}, ...folded(input.value)), input.source]);
    const columns: Column[] = [["name", "code"], ["value", "code"], ["from", ""]];
    const parts: Child[] = [...(rows.length ? [table(columns, rows)] : []), ...(shown.acts ? [form(shown)] : [])];
    return parts.length ? [section("Inputs", ...parts)] : [];
}

/** Other inputs: for one run, or written above the function. */
function form({ report, number, send }: Shown): HTMLElement {
    const field = element("textarea", { rows: "2", "aria-label": "Inputs, as in a # dry-run comment", spellcheck: "false" });
    field.value = report.given ?? "";
    field.placeholder = "x=torch.randn(8, 10), labels=torch.arange(8) % 4";
    const once = button("Run once with these", { class: "secondary" }, () => send({ type: "run", inputs: field.value }));
    const keep = button("Write above the function and run", { class: "secondary" }, () => send({ type: "write", inputs: field.value, number }));
    const details = element("details", { class: "inputs" }, element("summary", {}, "Change inputs"), field, element("div", { class: "row" }, once, keep));
    return details;
}

function notes(report: RunReport): HTMLElement[] {
    const items = report.notes.map((note) => element("li", {}, ...sentence(note)));
    return items.length ? [section("Notes", element("ul", {}, ...items))] : [];
}
