/** What the server and the extension say to each other besides the language server protocol. */

/** `drygrad/status`: the state of the workers and of what they did last. */
export interface Status {
    worker: { state: string; why: string | null };
    device: string | null;
    torch: string | null;
    interpreter: string | null;
    running: string[];
    /** What is done of each target that runs or is queued. */
    phases: { runId: string; uri: string; target: string | null; phase: string }[];
    /** Its report has `changes` since it was first told: experiments and fixes that were tried after it. */
    lastRun: LastRun | null;
    /** `changes` counts what was told of forecasts, so that a page knows when to ask again. */
    lastForecast?: { runId: string; uri: string; target: string | null; text: string; changes: number } | null;
}

export interface LastRun {
    runId: string;
    uri?: string;
    target: string | null;
    text: string;
    outcome: string;
    changes?: number;
    /** A user has asked for this target alone. */
    asked?: boolean;
}

/** What can be run: a function of a document, or (null) its script. */
export interface Target {
    uri: string;
    qualname: string | null;
}

export interface Fix {
    title: string;
    safe: boolean;
    verified: boolean | null;
}

export interface RunFinding {
    code: string;
    message: string;
    severity: "error" | "warning" | "info" | "hint";
    line: number;
    name?: string;
    detail?: string | null;
    fixes?: Fix[];
}

/** One run as `drygrad run --output-format json` prints it, and more; a run without inputs has only the former. */
export interface RunReport {
    id: string;
    target: string;
    path?: string;
    text?: string;
    /** The inputs as one would write them in a comment. */
    given?: string | null;
    /** The first and the last line of each statement that ran. */
    ran?: [number, number][];
    device: string;
    seed: number;
    inputs: { name: string; value: string; source: string }[];
    outcome: string;
    coverage: { ran: number; lines: number; missed: number[] } | null;
    seconds: number;
    peak_memory_bytes: number | null;
    peak_by_phase: Record<string, number>;
    memory_by_line?: { path: string; line: number; bytes: number; what?: string }[];
    memory_over_time?: { seconds: number; bytes: number; phase: string }[];
    syncs: { line: number; path?: string; kind: string; op: string; count: number }[];
    shapes: { line: number; name: string; shape: number[]; dtype: string; device: string; low?: number | null; high?: number | null }[];
    gradients?: { name: string; norm: number | null; shape: number[] }[];
    findings?: RunFinding[];
    experiments?: { code: string; name: string; outcome: string; why: string | null; seconds: number }[];
    refuted: { code: string; line: number }[];
    notes: string[];
    output?: { text: string; cut: boolean } | null;
    torch: string | null;
    interpreter: string | null;
}

/** The answer to `drygrad/run`: a function with several input comments is run several times. */
export interface RunAnswer {
    runId: string;
    running: boolean;
    runs: RunReport[];
}

/** One run of a target, with a report for each of its inputs; `at` is in seconds. */
export interface Entry {
    runId: string;
    at: number;
    text: string;
    runs: RunReport[];
}

/** The answer to `drygrad/results`: the runs of a target, the newest first, and what else was run. */
export interface Results extends Target {
    entries: Entry[];
    targets: (Target & { text: string; outcome: string })[];
}

export const RESULTS = "drygrad/results";
export const STATUS = "drygrad/status";
export const RUN = "drygrad/run";

/** One entry of the answer to `drygrad.launches`; `id` is what `drygrad.dryRun` and the setting take. */
export interface Launch {
    id: string;
    name: string | null;
    command: string;
    file: string;
    ranks: number;
    toFillIn: string[];
}
