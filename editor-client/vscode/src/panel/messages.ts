/** What the panel and its page say to each other. */

import { Results, RunFinding, Target } from "../protocol";

/** What the page shows now; `phase` is what is being done of the target, `runs` whether it may be run. */
export interface Model {
    results: Results;
    phase: string | null;
    runs: boolean;
}

export type ToView = { type: "model"; model: Model };

export type FromView =
    | { type: "ready" }
    | { type: "reveal"; path: string; line: number }
    | { type: "select"; target: Target }
    | { type: "run"; device?: string; inputs?: string }
    | { type: "write"; inputs: string; number: number }
    | { type: "cancel" }
    | { type: "launch" }
    | { type: "explain"; code: string }
    | { type: "fix"; finding: RunFinding; title: string };
