/** What differs between a run and the one before it. */

import { Entry, RunReport } from "../protocol";
import { Child, Column, element, section, table } from "./dom";
import { bytes, clock, duration, outcomeWords, signed } from "./words";
import { t } from "./l10n";

/** Return what changed from an earlier run to a later one, for the inputs of that number. */
export function compared(later: Entry, earlier: Entry | undefined, number: number): HTMLElement[] {
    const now = later.runs[number];
    const before = earlier?.runs[number];
    if (!now || !before || !earlier) {
        return [];
    }
    const rows = differences(now, before);
    const title = t("Since the run at {0}", clock(earlier.at));
    if (!rows.length) {
        return [section(title, element("p", {}, t("Nothing changed except the time.")))];
    }
    const columns: Column[] = [[t("what"), ""], [t("before"), ""], [t("now"), ""], ["", "amount"]];
    return [section(title, element("div", { class: "compared" }, table(columns, rows)))];
}

function differences(now: RunReport, before: RunReport): Child[][] {
    const rows: Child[][] = [];
    const add = (what: string, was: string, is: string, change = ""): void => {
        if (was !== is) {
            rows.push([what, was, is, change]);
        }
    };
    add(t("outcome"), outcomeWords(before)[1], outcomeWords(now)[1]);
    const [gone, fresh] = [missing(before, now), missing(now, before)];
    add(t("findings"), gone.join(", ") || "–", fresh.join(", ") || "–", gone.length || fresh.length ? `${signed(fresh.length - gone.length)}` : "");
    add(t("device"), before.device, now.device);
    add(t("inputs"), inputsOf(before), inputsOf(now));
    const [was, is] = [before.peak_memory_bytes ?? 0, now.peak_memory_bytes ?? 0];
    add(t("peak memory"), bytes(was), bytes(is), was ? `${signed(Math.round((100 * (is - was)) / was))} %` : "");
    add(t("waits and copies"), String(waits(before)), String(waits(now)), signed(waits(now) - waits(before)));
    if (rows.length || Math.abs(now.seconds - before.seconds) > before.seconds / 2) {
        add(t("time"), duration(before.seconds), duration(now.seconds));
    }
    add(t("text"), "", changedLines(before.text ?? "", now.text ?? ""));
    return rows;
}

/** The findings of one run that another does not have, by code and message: lines move. */
function missing(of: RunReport, other: RunReport): string[] {
    const known = new Set((other.findings ?? []).map((finding) => `${finding.code} ${finding.message}`));
    return (of.findings ?? []).filter((finding) => !known.has(`${finding.code} ${finding.message}`)).map((finding) => finding.code);
}

const inputsOf = (report: RunReport): string => report.inputs.map((input) => `${input.name}: ${input.value}`).join(", ");

const waits = (report: RunReport): number => report.syncs.reduce((sum, row) => sum + row.count, 0);

function changedLines(before: string, now: string): string {
    const known = new Set(before.split("\n"));
    const count = now.split("\n").filter((line) => !known.has(line)).length;
    return before === now ? "" : count ? (count > 1 ? t("{0} lines changed", count) : t("1 line changed")) : t("lines removed");
}
