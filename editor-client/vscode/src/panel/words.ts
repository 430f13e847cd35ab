/** How the page says numbers and outcomes. */

import { RunReport, Target } from "../protocol";
import { t } from "./l10n";

/** Return the target without the folders of its file. */
export function targetName(report: RunReport): string {
    return report.target.slice(report.target.lastIndexOf("/") + 1);
}

/** Return what is run of a document as one types it. */
export function nameOf({ uri, qualname }: Target): string {
    const file = decodeURIComponent(uri.slice(uri.lastIndexOf("/") + 1));
    return qualname === null ? file : `${file}::${qualname}`;
}

export function bytes(count: number): string {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    const power = count < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(count) / 10));
    const value = count / 1024 ** power;
    return `${value >= 100 || power === 0 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}

export function duration(seconds: number): string {
    return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}

const DEVICES: Record<string, string> = { sim: t("sim, a simulated GPU"), cuda: t("cuda, a GPU") };

/** Return the name of a device, and what it is where that is not plain. */
export function deviceWords(device: string): string {
    return DEVICES[device] ?? device;
}

const OUTCOMES: Record<string, [string, string]> = {
    failed: ["bad", t("failed")],
    deadline: ["bad", t("timed out")],
    "no-inputs": ["open", t("not run: inputs are missing")],
    blocked: ["open", t("stopped: the code did something that dry runs do not allow")],
    unsupported: ["open", t("needs something that this device does not support")],
    "missing-package": ["open", t("needs a package that is not installed")],
    cancelled: ["open", t("cancelled")],
    crashed: ["bad", t("the process crashed")],
    "out-of-memory": ["bad", t("out of memory")],
    error: ["bad", t("drygrad could not run it")],
};

/** Return the mood of the outcome (good, bad, open) and its words. */
export function outcomeWords(report: RunReport): [string, string] {
    if (report.outcome !== "passed") {
        return OUTCOMES[report.outcome] ?? ["open", report.outcome];
    }
    const count = (report.findings ?? []).filter((finding) => finding.severity === "error" || finding.severity === "warning").length;
    return count ? ["bad", count > 1 ? t("ran to the end, with {0} findings", count) : t("ran to the end, with 1 finding")] : ["good", t("passed")];
}

/** Return the time of day of a moment in seconds. */
export function clock(seconds: number): string {
    return new Date(seconds * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function signed(count: number): string {
    return count > 0 ? `+${count}` : count < 0 ? `−${-count}` : "±0";
}
