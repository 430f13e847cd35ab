/** What a forecast's page is made of: the plot, and tables by phase, kind, line, tensor and change. */

import { bar, button, Child, Column, element, folded, lineButton, section, sentence, table } from "../panel/dom";
import { t } from "../panel/l10n";
import { duration } from "../panel/words";
import { Change, Forecast, Told } from "./protocol";

type Reveal = (path: string, line: number) => void;

const MOST_LINES = 30;
const RESULTS = { same: t("equal"), rounded: t("rounded"), other: t("different training") };

/** Return bytes as the command line writes them. */
export function size(count: number): string {
    let amount = count;
    for (const unit of ["B", "KiB", "MiB"]) {
        if (amount < 1023.5) {
            return `${amount.toFixed(0)} ${unit}`;
        }
        amount /= 1024;
    }
    return `${amount.toFixed(amount < 9.995 ? 2 : 1)} GiB`;
}

export function facts({ forecast }: Forecast): HTMLElement {
    const told = forecast.forecast as Told;
    const least = (count: number): string => (told.lower_bound ? t("at least {0}", size(count)) : size(count));
    const peak = told.peak?.line ? t("line {0}, in {1}", told.peak.line, told.peak.phase) : null;
    const all: [string, string | null][] = [
        [t("allocated at the peak"), least(told.peak_allocated)],
        [t("reserved"), least(told.peak_reserved)],
        [t("GPU"), forecast.gpu && told.memory ? `${forecast.gpu.name}, ${size(told.memory)}` : null],
        [t("usable by torch"), forecast.gpu && told.memory ? size(told.memory - (told.context ?? 0)) : null],
        [t("peak at"), peak],
        [t("at best"), told.time ? t("{0} for {1}", best(told.time.seconds), told.time.of) : null],
        [t("traced in"), forecast.seconds === null ? null : duration(forecast.seconds)],
    ];
    const pairs = all.flatMap(([name, value]) => (value ? [element("div", {}, element("dt", {}, name), element("dd", {}, value))] : []));
    return element("dl", { class: "facts" }, ...pairs);
}

const best = (seconds: number): string => (seconds < 1 ? `${Number((seconds * 1000).toPrecision(3))} ms` : `${Number(seconds.toPrecision(3))} s`);

/** The picture of the server, in the colours of the editor: its own would not follow the theme. */
export function plot({ forecast }: Forecast): HTMLElement[] {
    if (!forecast.plot) {
        return [];
    }
    const picture = new DOMParser().parseFromString(forecast.plot, "image/svg+xml").documentElement;
    picture.querySelector("style")?.remove();
    picture.removeAttribute("width");
    picture.removeAttribute("height");
    const scrolled = { class: "plot", tabindex: "0", role: "group", "aria-label": t("Memory over time") };
    return [section(t("Memory over time"), element("div", scrolled, document.importNode(picture, true)))];
}

/** What there is by phase, and of each kind at the peak. */
export function parts({ forecast }: Forecast): HTMLElement[] {
    const told = forecast.forecast as Told;
    const ranked = (rows: Record<string, number>): HTMLElement => {
        const most = Math.max(...Object.values(rows), 1);
        const sorted = Object.entries(rows).filter(([, count]) => count);
        sorted.sort((one, other) => other[1] - one[1]);
        const cells = sorted.map(([name, count]) =>
            element(
                "tr",
                {},
                element("th", { scope: "row" }, name),
                element("td", { class: "amount" }, size(count)),
                element("td", { class: "bars" }, bar((100 * count) / most)),
            ),
        );
        return element("table", { class: "ranked" }, element("tbody", {}, ...cells));
    };
    const [phases, kinds] = [section(t("Peak by phase"), ranked(told.phases)), section(t("By kind at the peak"), ranked(told.kinds))];
    return [element("div", { class: "beside" }, phases, kinds)];
}

function place(path: string | null, line: number | null, own: string, reveal: Reveal): Child {
    if (path === null || line === null) {
        return t("no line of yours");
    }
    const file = path === own ? "" : `${path.slice(path.lastIndexOf("/") + 1)}:`;
    return lineButton(line, file ? `${file}${line}` : t("line {0}", line), () => reveal(path, line));
}

export function lines({ forecast }: Forecast, reveal: Reveal): HTMLElement[] {
    const told = forecast.forecast as Told;
    const rows: Child[][] = told.by_line.slice(0, MOST_LINES).map((row) => [
        size(row.bytes),
        row.kind,
        place(row.path, row.line, forecast.path, reveal),
        row.path === forecast.path && row.line !== null ? (forecast.lines[row.line] ?? "") : "",
    ]);
    const columns: Column[] = [[t("holds"), "amount"], [t("kind"), "short"], [t("where"), "short"], ["", "code"]];
    const rest = told.by_line.slice(MOST_LINES).reduce((sum, row) => sum + row.bytes, 0);
    const more = rest ? [element("p", { class: "hint" }, t("{0} of {1} more", size(rest), told.by_line.length - MOST_LINES))] : [];
    const refused = told.refused;
    const first = refused
        ? [
              element(
                  "p",
                  { class: "refused-here" },
                  t("First allocation that does not fit: {0} for {1}, with {2} allocated:", size(refused.bytes), plain(refused.operation), size(refused.allocated)),
                  " ",
                  place(refused.path, refused.line, forecast.path, reveal),
              ),
          ]
        : [];
    return rows.length ? [element("div", { class: "numbers" }, ...first, table(columns, rows), ...more)] : [];
}

const plain = (operation: string): string => (operation.split("::").at(-1) ?? operation).replace(/^_/, "");

export function tensors({ forecast }: Forecast, reveal: Reveal): HTMLElement[] {
    const told = forecast.forecast as Told;
    const rows: Child[][] = told.tensors.map((row) => [
        `${row.count > 1 ? `${row.count} × ` : ""}${size(row.bytes)}`,
        row.kind,
        element("span", {}, ...(row.name ? [element("code", {}, row.name), ", "] : []), t("{0} in {1}", plain(row.operation), row.phase)),
        place(row.path, row.line, forecast.path, reveal),
        row.kept_by
            ? element("span", {}, t("backward of {0}", row.kept_by.operation), ", ", place(row.kept_by.path, row.kept_by.line, forecast.path, reveal))
            : "",
    ]);
    const columns: Column[] = [[t("bytes"), "amount"], [t("kind"), "short"], [t("made by"), ""], [t("where"), "short"], [t("kept for"), ""]];
    return rows.length ? [element("div", { class: "numbers" }, table(columns, rows))] : [];
}

/** The changes that were traced, the greatest saving first; what changes the text can be applied. */
export function changes({ forecast }: Forecast, acts: boolean, apply: (change: string) => void): HTMLElement[] {
    const told = forecast.forecast as Told;
    const [computes, times, fits] = [told.what_if.some((row) => row.flops !== null), told.what_if.some((row) => row.seconds !== null), told.fits !== null];
    const columns: Column[] = [[t("saves"), "amount"], [t("what if"), "wide"], ["", "short"], [t("reserved"), "amount"]];
    if (fits) {
        columns.push([t("fits"), "short"]);
    }
    columns.push([t("results"), "short"]);
    if (computes) {
        columns.push([t("computes"), "amount"]);
    }
    if (times) {
        columns.push([t("at best"), "amount"]);
    }
    const cells = (row: Change): Child[] => [
        row.saves < 0 ? `−${size(-row.saves)}` : size(row.saves),
        element("span", {}, ...sentence(row.change)),
        row.edits.length && acts ? applyButton(row, apply) : "",
        size(row.peak_reserved),
        ...(fits ? [row.fits ? t("✓ yes") : t("no")] : []),
        RESULTS[row.results],
        ...(computes ? [row.flops === null ? "" : `${row.flops.toFixed(2)}×`] : []),
        ...(times ? [row.seconds === null ? "" : best(row.seconds)] : []),
    ];
    const rows = told.what_if.map(cells);
    const kinds = told.what_if.map((row) => (row.fits ? "fits" : row.saves < 0 ? "worse" : ""));
    const left = told.untraced ? [element("p", { class: "hint" }, t("{0} more not traced: out of time.", told.untraced))] : [];
    const hint = element("p", { class: "hint" }, t("Each change was traced. “computes” and “at best” are for the same amount of data."));
    return rows.length ? [element("div", { class: "numbers" }, table(columns, rows, kinds), ...left, hint)] : [];
}

function applyButton({ change }: Change, apply: (change: string) => void): HTMLElement {
    const attributes = { class: "secondary", "aria-label": t("Apply: {0}", change), title: t("Change the text, and forecast again") };
    return button(t("Apply"), attributes, () => apply(change));
}

export function time({ forecast }: Forecast, reveal: Reveal): HTMLElement[] {
    const bound = forecast.forecast?.time;
    if (!bound) {
        return [];
    }
    const rows: Child[][] = bound.lines.map((row) => [
        best(row.seconds),
        `${Math.round((100 * row.seconds) / (bound.seconds || 1))} %`,
        row.bound,
        place(row.path, row.line, forecast.path, reveal),
        row.path === forecast.path && row.line !== null ? (forecast.lines[row.line] ?? "") : "",
    ]);
    const columns: Column[] = [[t("at best"), "amount"], ["", "amount"], [t("bound by"), "short"], [t("where"), "short"], ["", "code"]];
    const small = bound.small_kernels ? t("{0} of {1} kernels are too small to fill the GPU.", bound.small_kernels, bound.kernels) : "";
    const hint = element("p", { class: "hint" }, `${t("A bound by arithmetic and bandwidth, not a measurement.")} ${small}`);
    return [element("div", { class: "numbers" }, table(columns, rows), hint)];
}

/** What the program was given, what was assumed of values, and what else there is to say. */
export function inputs({ forecast }: Forecast): HTMLElement[] {
    const rows: Child[][] = forecast.inputs.map((input) => [input.name, element("span", {}, ...folded(input.value)), input.source]);
    const columns: Column[] = [[t("name"), "code"], [t("value"), "code"], [t("from"), ""]];
    const list = (title: string, items: string[]): HTMLElement[] =>
        items.length ? [section(title, element("ul", {}, ...items.map((item) => element("li", {}, ...sentence(item)))))] : [];
    return [
        ...(rows.length ? [section(t("Inputs"), table(columns, rows))] : []),
        ...list(t("Assumed"), forecast.forecast?.assumptions ?? []),
        ...list(t("Notes"), [...(forecast.reason ? [forecast.reason] : []), ...forecast.notes]),
    ];
}
