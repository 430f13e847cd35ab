/** What the panel and its page say to each other. */

import { RunReport } from "../protocol";

export interface Shown {
    report: RunReport;
    source: string | null;
}

export type ToView = { type: "runs"; runs: Shown[] };
export type FromView = { type: "ready" } | { type: "reveal"; path: string; line: number };
