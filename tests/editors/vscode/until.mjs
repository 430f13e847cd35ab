// Waiting for what a user would see, never for a time.
export const PATIENCE_MS = Number(process.env.DRYGRAD_PATIENCE_MS ?? 120_000);
const PAUSE_MS = 50;

// Wait until a condition holds, and return its value. `what` says what was awaited; a function may look at how things are.
export async function until(condition, what, milliseconds = PATIENCE_MS) {
    const end = Date.now() + milliseconds;
    for (;;) {
        const value = await condition();
        if (value) {
            return value;
        }
        if (Date.now() > end) {
            throw new Error(`waited ${milliseconds / 1000} s in vain for ${typeof what === "function" ? await what() : what}`);
        }
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
}
