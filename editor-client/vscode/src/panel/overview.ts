/** What is to be seen first: findings with their fixes, what differs from the run before, the inputs, notes. */

import { Entry, RunFinding, RunReport } from "../protocol";
import { compared } from "./compare";
import { button, Child, Column, element, folded, lineButton, section, sentence, table } from "./dom";
import { FromView } from "./messages";
import { bytes, deviceWords, duration } from "./words";
import { t } from "./l10n";

const SEVERITIES: Record<string, string> = { error: t("error"), warning: t("warning"), info: t("info"), hint: t("hint") };

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
        [t("device"), report.device && deviceWords(report.device)],
        [t("time"), report.seconds === null ? null : duration(report.seconds)],
        [t("peak memory"), report.peak_memory_bytes ? bytes(report.peak_memory_bytes) : null],
        [t("waits and copies"), String(report.syncs.reduce((sum, row) => sum + row.count, 0))],
        [t("lines run"), covered ? t("{0} of {1}", covered.ran, covered.lines) : null],
        [t("torch"), report.torch],
        [t("seed"), report.seed === null ? null : String(report.seed)],
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
            element("span", { class: "message" }, t("did not happen at line {0}", one.line)),
        ),
    );
    const all = [...found, ...refuted];
    return all.length ? [section(t("Findings"), element("ul", { class: "findings" }, ...all))] : [];
}

function item(finding: RunFinding, { report, acts, send }: Shown): HTMLElement {
    const explain = { class: "code", title: t("Show the page of the rule"), "aria-label": t("{0}: show the page of the rule", finding.code) };
    const fixes = (finding.fixes ?? []).filter((fix) => fix.verified !== false);
    return element(
        "li",
        { class: `finding ${finding.severity}` },
        element("span", { class: "severity" }, SEVERITIES[finding.severity] ?? finding.severity),
        button(finding.code, explain, () => send({ type: "explain", code: finding.code })),
        lineButton(finding.line, t("line {0}", finding.line), () => send({ type: "reveal", path: report.path ?? "", line: finding.line })),
        element("p", { class: "message" }, ...sentence(finding.message)),
        ...(finding.detail ? [element("p", { class: "detail" }, ...folded(finding.detail))] : []),
        ...(fixes.length && acts ? [element("div", { class: "fixes" }, ...fixes.map((fix, index) => fixButton(fix, index === 0, finding, send)))] : []),
    );
}

type Fixes = NonNullable<RunFinding["fixes"]>;

function fixButton(fix: Fixes[number], first: boolean, finding: RunFinding, send: Shown["send"]): HTMLElement {
    const verdict = [...(fix.verified ? [t("verified")] : []), ...(fix.safe ? [] : [t("unsafe")])];
    const text = verdict.length ? `${fix.title} (${verdict.join(", ")})` : fix.title;
    const attributes = { class: first && fix.verified ? "primary" : "secondary", title: t("Apply it, and run again") };
    const made = button("", attributes, () => send({ type: "fix", finding, title: fix.title }));
    made.append(...sentence(t("Apply: {0}", text)));
    return made;
}

function inputs(shown: Shown): HTMLElement[] {
    const { report } = shown;
    const rows: Child[][] = report.inputs.map((input) => [input.name, element("span", {}, ...folded(input.value)), input.source]);
    const columns: Column[] = [[t("name"), "code"], [t("value"), "code"], [t("from"), ""]];
    const parts: Child[] = [...(rows.length ? [table(columns, rows)] : []), ...(shown.acts ? [form(shown)] : [])];
    return parts.length ? [section(t("Inputs"), ...parts)] : [];
}

/** Other inputs: for one run, or written above the function. */
function form({ report, number, send }: Shown): HTMLElement {
    const field = element("textarea", { rows: "2", "aria-label": t("Inputs, as in a # dry-run comment"), spellcheck: "false" });
    field.value = report.given ?? "";
    field.placeholder = "x=torch.randn(8, 10), labels=torch.arange(8) % 4";
    const once = button(t("Run once with these"), { class: "secondary" }, () => send({ type: "run", inputs: field.value }));
    const keep = button(t("Write above the function and run"), { class: "secondary" }, () => send({ type: "write", inputs: field.value, number }));
    const details = element("details", { class: "inputs" }, element("summary", {}, t("Change inputs")), field, element("div", { class: "row" }, once, keep));
    return details;
}

function notes(report: RunReport): HTMLElement[] {
    const items = report.notes.map((note) => element("li", {}, ...sentence(note)));
    return items.length ? [section(t("Notes"), element("ul", {}, ...items))] : [];
}
