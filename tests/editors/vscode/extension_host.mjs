// The extension's own tests, in the extension host of a real VS Code:
// node extension_host.mjs INSTALLED EXTENSION PYTHON_WITH_TORCH PYTHON_WITH_DRYGRAD FOLDER
// DRYGRAD_TEST_GREP chooses tests by their titles.
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { CodeServer } from "./server.mjs";
import { until } from "./until.mjs";
import { Workbench } from "./workbench.mjs";

const PATIENCE_MS = 320_000; // a test has 300 s, and says itself what it waits for

const [installed, extension, python, ownPython, folder] = process.argv.slice(2);
const extensions = path.join(extension, "build/extensions");
const reports = path.join(folder, "reports");
const server = new CodeServer(installed, folder);

// Open a window in which the extension of the tests runs, and those that stand in for others; print what came of it.
async function play(kind, settings, files) {
    const project = path.join(folder, kind);
    for (const [name, value] of Object.entries({ "pyproject.toml": "", ...files })) {
        mkdirSync(path.dirname(path.join(project, name)), { recursive: true });
        writeFileSync(path.join(project, name), value);
    }
    server.settings(settings);
    const window = await Workbench.open(installed, server.url, { folder: project });
    try {
        return await follow(path.join(reports, `${kind}.jsonl`));
    } finally {
        await window.page.screenshot({ path: path.join(folder, `${kind}.png`) });
        await window.close();
    }
}

// Print each test as it ends; say whether all passed.
async function follow(report) {
    let shown = 0;
    let passed = true;
    for (;;) {
        const lines = await until(() => newLines(report, shown), `the next line of ${report}`, PATIENCE_MS);
        for (const { title, seconds, error, done } of lines) {
            passed &&= !error;
            if (error) {
                console.log(`FAILED  ${title ?? ""}\n${error}`);
            } else if (!done) {
                console.log(`${seconds.toFixed(1).padStart(6)} s  ${title}`);
            }
            if (done) {
                return passed && shown > 0;
            }
        }
        shown += lines.length;
    }
}

function newLines(report, shown) {
    const lines = existsSync(report) ? readFileSync(report, "utf8").split("\n").slice(shown, -1) : [];
    return lines.length ? lines.map((line) => JSON.parse(line)) : null;
}

// What a folder that somebody sent might contain.
const EVIL = JSON.stringify({
    "drygrad.interpreter": "/evil/python",
    "drygrad.launcher": ["/evil/launcher"],
    "drygrad.importStrategy": "fromEnvironment",
});

mkdirSync(reports, { recursive: true });
for (const [name, place] of [["drygrad", extension], ...readdirSync(extensions).map((name) => [name, path.join(extensions, name)])]) {
    symlinkSync(place, path.join(folder, "extensions", name));
}
await server.start({
    DRYGRAD_TEST_REPORTS: reports,
    DRYGRAD_TEST_PYTHON_WITH_TORCH: python,
    DRYGRAD_TEST_PYTHON_WITH_DRYGRAD: ownPython,
});
try {
    const passed = [await play("trusted", {}, {}), await play("untrusted", { trusted: false }, { ".vscode/settings.json": EVIL })];
    process.exitCode = passed.every(Boolean) ? 0 : 1;
} finally {
    await server.stop();
}
