/** What the panel and its page say to each other. */

import { RunReport } from "../protocol";

export type ToView = { type: "runs"; runs: RunReport[] };
export type FromView = { type: "ready" } | { type: "reveal"; path: string; line: number };
