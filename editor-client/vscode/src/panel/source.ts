/** The lines that ran, each with the shapes that were seen there. */

import { RunReport } from "../protocol";
import { Child, element, folded, lineButton, section } from "./dom";
import { t } from "./l10n";

export function sourceWithShapes(report: RunReport, reveal: (line: number) => void): HTMLElement[] {
    const lines = (report.text ?? "").split(/\r\n|\r|\n/);
    const found = new Map((report.findings ?? []).map((finding) => [finding.line, finding]));
    const rows: HTMLElement[] = [];
    let before: number | null = null;
    for (const number of listed(report)) {
        if (before !== null && number > before + 1) {
            rows.push(element("tr", { class: "gap", "aria-hidden": "true" }, element("td", { colspan: "2" }, "⋮")));
        }
        const finding = found.get(number);
        const row = element(
            "tr",
            { class: finding ? `hit ${finding.severity}` : "" },
            element("td", { class: "number" }, lineButton(number, String(number), () => reveal(number))),
            element("td", { class: "content" }, ...code(lines[number - 1] ?? "", finding?.message), ...shapesOf(report, number)),
        );
        row.addEventListener("dblclick", () => reveal(number));
        rows.push(row);
        before = number;
    }
    return rows.length ? [section(t("Lines that ran"), element("table", { class: "source" }, element("tbody", {}, ...rows)))] : [];
}

/** The lines of the statements that ran, and those that something is said of. */
function listed(report: RunReport): number[] {
    const numbers = new Set([...report.shapes.map((shape) => shape.line), ...(report.findings ?? []).map((finding) => finding.line)]);
    for (const [first, last] of report.ran ?? []) {
        for (let line = first; line <= last; line++) {
            numbers.add(line);
        }
    }
    return [...numbers].sort((one, other) => one - other);
}

/** A line of code in two parts: a finding underlines the second, and says why to who hovers or listens. */
function code(line: string, message?: string): HTMLElement[] {
    const text = line.trimStart();
    const indentation = line.slice(0, line.length - text.length);
    const said = message === undefined ? {} : { title: message, "aria-description": message };
    return [element("span", { class: "indentation" }, indentation), element("span", { class: "text", ...said }, ...folded(text))];
}

function shapesOf(report: RunReport, line: number): HTMLElement[] {
    return report.shapes
        .filter((shape) => shape.line === line)
        .map((shape) => {
            const place: Child = shape.device === "cpu" ? "" : ` ${shape.device}`;
            const sizes = ` ${shape.dtype.replace("torch.", "")} [${shape.shape.join(", ")}]`;
            return element("span", { class: "shape" }, element("b", {}, shape.name), sizes, element("i", {}, place));
        });
}
