/** The runs of a target, the newest first; what they come to when the server has started anew. */

import { Entry, Results } from "../protocol";

const KEPT = 6;

/** Return results with the runs of the same target that the server no longer knows; what it knows comes first. */
export function joined(fresh: Results | null, known: Results | null): Results | null {
    if (!fresh || !known || fresh.uri !== known.uri || fresh.qualname !== known.qualname) {
        return fresh ?? known;
    }
    const times = new Set(fresh.entries.map((entry) => entry.at));
    const older = known.entries.filter((entry) => !times.has(entry.at));
    const entries = [...fresh.entries, ...older].sort((one, other) => other.at - one.at).slice(0, KEPT);
    return { ...fresh, entries, targets: fresh.targets.length ? fresh.targets : known.targets };
}

/** Return the entry that was chosen, else the newest, and the one before it. */
export function chosen(results: Results, at: number | null): [Entry | undefined, Entry | undefined] {
    const index = Math.max(results.entries.findIndex((entry) => entry.at === at), 0);
    return [results.entries[index], results.entries[index + 1]];
}
