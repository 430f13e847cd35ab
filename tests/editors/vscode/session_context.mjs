// What the parts of a session share: a VS Code server, its windows, the steps, and the processes that it has started.
import { cpSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import path from "node:path";
import { CodeServer } from "./server.mjs";
import { until } from "./until.mjs";
import { Workbench } from "./workbench.mjs";

const ENDING_MS = 10_000;
const MARK = "DRYGRAD_SESSION"; // in the environment of all that this VS Code starts

export class Session {
    #begin = Date.now();
    #windows = new Set();

    constructor(installed, vsix, python, folder) {
        Object.assign(this, { installed, vsix, python, folder });
        this.shots = path.join(folder, "shots");
        mkdirSync(this.shots, { recursive: true });
        this.server = new CodeServer(installed, folder);
    }

    async start(settings) {
        this.server.settings(settings ?? { machine: { "drygrad.interpreter": this.python } });
        await this.step("install the extension", () => this.server.install(this.vsix));
        await this.step("start VS Code", () => this.server.start({ [MARK]: this.folder }));
    }

    // Do something, and print how long it took.
    async step(name, action) {
        const begin = Date.now();
        this.current = name;
        await action();
        console.log(`${((Date.now() - begin) / 1000).toFixed(1).padStart(6)} s  ${name}`);
    }

    // Do something, wait for what a user waits for, and print how long that took: the figures that a session is about.
    async timed(what, action, shown) {
        await action();
        const begin = Date.now();
        await shown();
        console.log(`${((Date.now() - begin) / 1000).toFixed(2).padStart(8)} s  from ${what}; load ${loadavg()[0].toFixed(1)}`);
    }

    get seconds() {
        return (Date.now() - this.#begin) / 1000;
    }

    // Make a folder with files; return its path.
    project(name, files) {
        const folder = path.join(this.folder, name);
        for (const [file, text] of Object.entries(files)) {
            mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
            writeFileSync(path.join(folder, file), text);
        }
        return folder;
    }

    // Give a folder an environment of its own, a copy of the one with torch.
    environment(folder) {
        cpSync(path.dirname(path.dirname(this.python)), path.join(folder, ".venv"), { recursive: true, verbatimSymlinks: true });
    }

    async window(what, options) {
        const workbench = await Workbench.open(this.installed, this.server.url, what, { picture: path.join(this.shots, "failed-1.png"), ...options });
        this.#windows.add(workbench);
        return workbench;
    }

    async close(workbench) {
        this.#windows.delete(workbench);
        await workbench.close();
    }

    shot(workbench, name) {
        return workbench.page.screenshot({ path: path.join(this.shots, `${name}.png`) });
    }

    // What runs because of the extension: servers, helpers, workers, runs; as [{ pid, args }].
    processes() {
        const inherited = (pid) => readFileSync(`/proc/${pid}/environ`, "utf8").includes(`${MARK}=${this.folder}`);
        return running().filter(({ pid, args, program }) => {
            const ours = args.includes(path.join(this.folder, "extensions")) || tried(() => inherited(pid));
            return ours && program !== this.server.node;
        });
    }

    get servers() {
        return this.processes().filter(({ args }) => args.endsWith("drygrad.py server"));
    }

    // Wait until nothing is left of what was started, which takes a few seconds at most.
    async untilNoProcess() {
        await until(() => !this.processes().length, () => `the end of ${JSON.stringify(this.processes(), null, 1)}`, ENDING_MS);
    }

    // Say which step failed, and keep what was to be seen.
    async failed(error) {
        console.error(`\nfailed: ${this.current}\n${error.message}`);
        for (const [index, workbench] of [...this.#windows].entries()) {
            const name = `failed-${index + 1}`;
            await this.shot(workbench, name).then(() => console.error(`seen: ${path.join(this.shots, name)}.png`), () => {});
            const toasts = await workbench.toasts().catch(() => []);
            toasts.forEach((toast) => console.error(`told: ${toast}`));
        }
        console.error(`log: ${path.join(this.folder, "server.log")}`);
    }

    async end() {
        await Promise.all([...this.#windows].map((workbench) => workbench.close().catch(() => {})));
        await this.server.stop();
    }
}

// Run the parts of a session one after the other; the process ends with 1 where a step failed.
export async function play(session, parts, settings) {
    try {
        await session.start(settings);
        for (const part of parts) {
            await part(session);
        }
        console.log(`${session.seconds.toFixed(1).padStart(6)} s  in all`);
    } catch (error) {
        await session.failed(error);
        process.exitCode = 1;
    } finally {
        await session.end();
    }
}

function running() {
    const ids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    const described = ids.map((pid) =>
        tried(() => ({
            pid: Number(pid),
            args: readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").join(" ").trim(),
            program: readlinkSync(`/proc/${pid}/exe`),
        })),
    );
    return described.filter(Boolean);
}

// A process may end while one looks at it.
function tried(look) {
    try {
        return look();
    } catch {
        return null;
    }
}
