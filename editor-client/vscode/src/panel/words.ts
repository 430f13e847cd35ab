/** How the page says numbers and outcomes. */

import { RunReport, Target } from "../protocol";

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

const DEVICES: Record<string, string> = { sim: "sim, a simulated GPU", cuda: "cuda, a GPU" };

/** Return the name of a device, and what it is where that is not plain. */
export function deviceWords(device: string): string {
    return DEVICES[device] ?? device;
}

const OUTCOMES: Record<string, [string, string]> = {
    failed: ["bad", "failed"],
    deadline: ["bad", "did not end within its time"],
    "no-inputs": ["open", "not run: inputs are missing"],
    blocked: ["open", "stopped at something that a dry run does not do"],
    unsupported: ["open", "needs something that this device cannot do"],
    "missing-package": ["open", "needs a package that the environment does not have"],
    cancelled: ["open", "cancelled"],
    crashed: ["bad", "the process crashed"],
    "out-of-memory": ["bad", "out of memory"],
    error: ["bad", "drygrad could not run it"],
};

/** Return the mood of the outcome (good, bad, open) and its words. */
export function outcomeWords(report: RunReport): [string, string] {
    if (report.outcome !== "passed") {
        return OUTCOMES[report.outcome] ?? ["open", report.outcome];
    }
    const count = (report.findings ?? []).filter((finding) => finding.severity === "error" || finding.severity === "warning").length;
    return count ? ["bad", `ran to its end, with ${count} finding${count > 1 ? "s" : ""}`] : ["good", "passed"];
}

/** Return the time of day of a moment in seconds. */
export function clock(seconds: number): string {
    return new Date(seconds * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function signed(count: number): string {
    return count > 0 ? `+${count}` : count < 0 ? `−${-count}` : "±0";
}
