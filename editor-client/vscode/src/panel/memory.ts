/** Memory over time, coloured by phase, and the lines that hold most of it at the peak. */

import { RunReport } from "../protocol";
import { bar, Column, element, lineButton, section, svg, table } from "./dom";
import { bytes, duration } from "./words";
import { t } from "./l10n";

const WIDTH = 480;
const HEIGHT = 150;
const LEFT = 60;
const BOTTOM = 22;
const TOP = 10;
const PHASE_WORDS: Record<string, string> = { forward: t("forward"), backward: t("backward"), optimizer: t("optimizer") };
const PHASES = Object.keys(PHASE_WORDS);

export function overTime(report: RunReport): HTMLElement[] {
    const measured = report.memory_over_time ?? [];
    const last = measured.at(-1);
    if (measured.length < 2 || !last) {
        return [];
    }
    // A sample holds until the next; the last one, often the peak, for as long as can be seen.
    const end = last.seconds * 1.02;
    const samples = [...measured, { ...last, seconds: end }];
    const peak = Math.max(...samples.map((sample) => sample.bytes), 1);
    const x = (seconds: number): number => LEFT + ((WIDTH - LEFT) * seconds) / (end || 1);
    const y = (count: number): number => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * count) / peak;
    const areas = runs(samples).map(({ phase, points }) =>
        svg("path", {
            class: `phase ${phase}`,
            d: `M${x(points[0]?.seconds ?? 0)},${y(0)} V${y(points[0]?.bytes ?? 0)} ${points
                .map((point) => `H${x(point.seconds)} V${y(point.bytes)}`)
                .join(" ")} V${y(0)}Z`,
        }),
    );
    const plot = svg(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": t("Memory over time: peak {0}", bytes(peak)) },
        ...[0, 0.5, 1].flatMap((part) => [
            svg("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y(part * peak), y2: y(part * peak) }),
            svg("text", { class: "tick", x: LEFT - 8, y: y(part * peak) + 4, "text-anchor": "end" }, bytes(part * peak)),
        ]),
        ...areas,
        svg("text", { class: "tick", x: LEFT, y: HEIGHT - 6 }, "0"),
        svg("text", { class: "tick", x: WIDTH, y: HEIGHT - 6, "text-anchor": "end" }, duration(last.seconds)),
    );
    const keys = PHASES.filter((phase) => report.peak_by_phase[phase]).map((phase) =>
        element("li", { class: `phase ${phase}` }, t("{0}: peak {1}", PHASE_WORDS[phase] ?? phase, bytes(report.peak_by_phase[phase] ?? 0))),
    );
    return [section(t("Memory over time"), plot, element("ul", { class: "legend" }, ...keys))];
}

type Sample = NonNullable<RunReport["memory_over_time"]>[number];

/** Group the samples by phase; each group begins at the last point of the one before, so that the areas touch. */
function runs(samples: Sample[]): { phase: string; points: Sample[] }[] {
    const grouped: { phase: string; points: Sample[] }[] = [];
    for (const sample of samples) {
        const current = grouped.at(-1);
        if (current?.phase === sample.phase) {
            current.points.push(sample);
        } else {
            const before = current?.points.at(-1);
            grouped.push({ phase: sample.phase, points: before ? [before, sample] : [sample] });
        }
    }
    return grouped;
}

export function largestLines(report: RunReport, reveal: (path: string, line: number) => void): HTMLElement[] {
    const lines = report.memory_by_line ?? [];
    const most = Math.max(...lines.map((line) => line.bytes), 1);
    const rows = lines.map((line) =>
        element(
            "tr",
            {},
            element("td", {}, lineButton(line.line, t("line {0}", line.line), () => reveal(line.path, line.line))),
            element("td", {}, line.what ?? ""),
            element("td", { class: "amount" }, bytes(line.bytes)),
            element("td", { class: "bars" }, bar((100 * line.bytes) / most)),
        ),
    );
    return rows.length ? [section(t("Held at the peak"), element("table", { class: "ranked" }, element("tbody", {}, ...rows)))] : [];
}

export function syncs(report: RunReport, reveal: (path: string, line: number) => void): HTMLElement[] {
    const kinds: Record<string, string> = { sync: t("wait"), h2d: t("copy to the device"), d2h: t("copy to the host") };
    const rows = report.syncs.map((row) => [
        lineButton(row.line, t("line {0}", row.line), () => reveal(row.path ?? report.path ?? "", row.line)),
        kinds[row.kind] ?? row.kind,
        row.op,
        `${row.count} ×`,
    ]);
    const columns: Column[] = [[t("where"), ""], [t("what"), ""], [t("operation"), "code"], [t("times"), ""]];
    return rows.length ? [section(t("Waits and copies"), table(columns, rows))] : [];
}
