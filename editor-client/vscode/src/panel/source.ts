/** The lines that were run, each with the shapes that were seen there. */

import { RunReport } from "../protocol";
import { element, section } from "./dom";

const AROUND = 2;

export function sourceWithShapes(report: RunReport, reveal: (line: number) => void): HTMLElement[] {
    const lines = (report.text ?? "").split(/\r\n|\r|\n/);
    const found = new Map((report.findings ?? []).map((finding) => [finding.line, finding]));
    const interesting = [...report.shapes.map((shape) => shape.line), ...found.keys()];
    if (!interesting.length) {
        return [];
    }
    const rows: HTMLElement[] = [];
    const blank = (number: number): boolean => !lines[number - 1]?.trim();
    let first = Math.max(1, Math.min(...interesting) - AROUND);
    let last = Math.min(lines.length, Math.max(...interesting) + AROUND);
    while (blank(first) && first < last) {
        first++;
    }
    while (blank(last) && last > first) {
        last--;
    }
    for (let number = first; number <= last; number++) {
        const finding = found.get(number);
        const row = element(
            "tr",
            { class: finding ? `hit ${finding.severity}` : "", title: finding?.message ?? "" },
            element("td", { class: "number" }, String(number)),
            element("td", {}, ...code(lines[number - 1] ?? ""), ...shapesOf(report, number)),
        );
        row.addEventListener("click", () => reveal(number));
        rows.push(row);
    }
    return [section("Shapes", element("table", { class: "source" }, element("tbody", {}, ...rows)))];
}

/** A line of code in two parts: a finding underlines the second. */
function code(line: string): HTMLElement[] {
    const text = line.trimStart();
    const indentation = line.slice(0, line.length - text.length);
    return [element("span", { class: "indentation" }, indentation), element("span", { class: "text" }, text)];
}

function shapesOf(report: RunReport, line: number): HTMLElement[] {
    return report.shapes
        .filter((shape) => shape.line === line)
        .map((shape) =>
            element(
                "span",
                { class: "shape" },
                element("b", {}, shape.name),
                ` ${shape.dtype.replace("torch.", "")} [${shape.shape.join(", ")}]`,
                element("i", {}, shape.device === "cpu" ? "" : ` ${shape.device}`),
            ),
        );
}
