// Takes the place of @vscode/spdlog, which would have to be compiled: without it VS Code writes no log, and its Output panel is empty.
const { appendFileSync, mkdirSync } = require("node:fs");
const path = require("node:path");

const NAMES = { trace: "trace", debug: "debug", info: "info", warn: "warning", error: "error", critical: "critical" };

class Logger {
    constructor(_kind, _name, file) {
        mkdirSync(path.dirname(file), { recursive: true });
        this.file = file;
        this.patterned = false;
        for (const [method, name] of Object.entries(NAMES)) {
            this[method] = (text) => appendFileSync(this.file, this.patterned ? `${now()} [${name}] ${text}\n` : text);
        }
    }

    setPattern() {
        this.patterned = true;
    }

    clearFormatters() {
        this.patterned = false;
    }

    getLevel() {
        return 0;
    }

    setLevel() {}
    flush() {}
    drop() {}
}

const now = () => new Date().toISOString().replace("T", " ").replace("Z", "");

exports.Logger = Logger;
exports.setLevel = () => {};
exports.setFlushOn = () => {};
exports.createRotatingLogger = async (...given) => new Logger("rotating", ...given);
exports.createAsyncRotatingLogger = async (...given) => new Logger("rotating_async", ...given);
