/** What must hold between two runs: broken and where, held, or not tried and why. */

import { RunReport } from "../protocol";
import { Child, Column, element, lineButton, section, table } from "./dom";
import { t } from "./l10n";

const OUTCOMES: Record<string, string> = { broken: t("broken"), held: t("held"), "not-tried": t("not tried") };
const ORDER = Object.keys(OUTCOMES);

export function experiments(report: RunReport, reveal: (line: number) => void): HTMLElement[] {
    const tried = [...(report.experiments ?? [])].sort((a, b) => ORDER.indexOf(a.outcome) - ORDER.indexOf(b.outcome));
    const place = (code: string): Child => {
        const found = report.findings?.find((finding) => finding.code === code);
        return found ? lineButton(found.line, t("line {0}", found.line), () => reveal(found.line)) : "";
    };
    const rows: Child[][] = tried.map((one) => [one.name, OUTCOMES[one.outcome] ?? one.outcome, one.why ?? place(one.code), one.code]);
    const columns: Column[] = [[t("property"), ""], ["", "tried"], ["", ""], [t("code"), "code"]];
    return rows.length ? [section(t("Checked properties"), table(columns, rows, tried.map((one) => one.outcome)))] : [];
}

/** Return what the program has printed, and the error that ended it. */
export function output(report: RunReport): HTMLElement[] {
    const text = report.output?.text;
    const cut = report.output?.cut ? [element("p", { class: "hint" }, t("The beginning was cut off."))] : [];
    return text ? [section(t("Printed"), ...cut, element("pre", { tabindex: "0" }, text))] : [];
}
