/** Where drygrad's own processes start: nothing of the user's folder or environment may change what they import. */

const { PYTHONPATH: _, ...inherited } = process.env;

/** Options for processes: a folder without Python files, for `-m` and `-c` import from where they are started. */
export const NEUTRAL = { cwd: __dirname, env: { ...inherited, PYTHONUTF8: "1" } };
