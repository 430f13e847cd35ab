// A session with a real VS Code, step by step: node session.mjs INSTALLED VSIX PYTHON FOLDER [PART...]
import { play, Session } from "./session_context.mjs";
import { folders } from "./session_folders.mjs";
import { forecast } from "./session_forecast.mjs";
import { panel } from "./session_panel.mjs";
import { recovery } from "./session_recovery.mjs";
import { runs } from "./session_runs.mjs";
import { statics } from "./session_statics.mjs";
import { trust } from "./session_trust.mjs";
import { windows } from "./session_windows.mjs";

const PARTS = { statics, runs, panel, forecast, recovery, windows, folders, trust };

const [installed, vsix, python, folder, ...wanted] = process.argv.slice(2);
const parts = wanted.length ? wanted.map((name) => PARTS[name]) : Object.values(PARTS);
await play(new Session(installed, vsix, python, folder), parts);
