/** What must hold between two runs: broken and where, held, or not tried and why. */

import { RunReport } from "../protocol";
import { Child, Column, element, lineButton, section, table } from "./dom";

const ORDER = ["broken", "held", "not-tried"];

export function experiments(report: RunReport, reveal: (line: number) => void): HTMLElement[] {
    const tried = [...(report.experiments ?? [])].sort((a, b) => ORDER.indexOf(a.outcome) - ORDER.indexOf(b.outcome));
    const place = (code: string): Child => {
        const found = report.findings?.find((finding) => finding.code === code);
        return found ? lineButton(found.line, `line ${found.line}`, () => reveal(found.line)) : "";
    };
    const rows: Child[][] = tried.map((one) => [one.name, one.outcome.replace("-", " "), one.why ?? place(one.code), one.code]);
    const columns: Column[] = [["what must hold", ""], ["", "tried"], ["", ""], ["code", "code"]];
    return rows.length ? [section("Between two runs", table(columns, rows, tried.map((one) => one.outcome)))] : [];
}

/** Return what the program has printed, and the error that ended it. */
export function output(report: RunReport): HTMLElement[] {
    const text = report.output?.text;
    const cut = report.output?.cut ? [element("p", { class: "hint" }, "The beginning is left out.")] : [];
    return text ? [section("Printed", ...cut, element("pre", { tabindex: "0" }, text))] : [];
}
