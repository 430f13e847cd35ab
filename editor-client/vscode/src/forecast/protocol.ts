/** What the server says of forecasts, and what their panel and its page say to each other. */

import { Target } from "../protocol";

export const FORECAST = "drygrad/forecast";

/** A place in the user's code; both are null where there is none. */
interface Place {
    path: string | null;
    line: number | null;
}

interface Allocated extends Place {
    phase: string;
    operation: string;
    bytes: number;
}

export interface Held extends Place {
    kind: string;
    bytes: number;
}

export interface Tensor extends Allocated {
    kind: string;
    name: string | null;
    count: number;
    kept_by: (Place & { operation: string }) | null;
}

/** One change that was traced; a text change has `edits`. */
export interface Change {
    change: string;
    results: "same" | "rounded" | "other";
    peak_allocated: number;
    peak_reserved: number;
    saves: number;
    fits: boolean | null;
    flops: number | null;
    seconds: number | null;
    edits: object[];
}

export interface Told {
    peak_allocated: number;
    peak_reserved: number;
    memory: number | null;
    context: number | null;
    fits: boolean | null;
    lower_bound: boolean;
    peak: Allocated | null;
    refused: (Allocated & { allocated: number }) | null;
    phases: Record<string, number>;
    kinds: Record<string, number>;
    by_line: Held[];
    tensors: Tensor[];
    assumptions: string[];
    time: {
        of: string;
        seconds: number;
        lines: (Place & { seconds: number; bound: string })[];
        kernels: number;
        small_kernels: number;
    } | null;
    what_if: Change[];
    untraced: number;
}

/** The answer to `drygrad/forecast`: as `drygrad forecast --output-format json` prints it, and what a page shows beside it. */
export interface Forecast extends Target {
    runId: string;
    at: number;
    text: string;
    forecast: {
        path: string;
        outcome: string;
        reason: string | null;
        gpu: { name: string } | null;
        inputs: { name: string; value: string; source: string }[];
        seconds: number | null;
        notes: string[];
        torch: string | null;
        forecast: Told | null;
        /** The text of the lines that it names, by their numbers. */
        lines: Record<string, string>;
        /** Whether changes were traced. */
        explored: boolean;
        /** Memory over time, as SVG. */
        plot: string | null;
    };
}

/** What a page shows: a forecast, what is being done of its target, and the GPUs that another can be made for. */
export interface Model {
    forecast: Forecast;
    phase: string | null;
    runs: boolean;
    gpus: string[];
}

export type FromPage =
    | { type: "ready" }
    | { type: "reveal"; path: string; line: number }
    | { type: "forecast"; whatIf: boolean; gpu: string | null }
    | { type: "apply"; change: string }
    | { type: "cancel" };
