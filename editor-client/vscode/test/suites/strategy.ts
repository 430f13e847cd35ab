/** Which drygrad is started: the one that the extension carries, or the one of the environment. */

import { strict as assert } from "node:assert";
import * as path from "node:path";
import { State } from "vscode-languageclient";
import { drygrad, extension, givenPython, servers, set, show, until, untilFound } from "../support";
import { WRONG } from "./programs";

const started = (words: string): Promise<unknown> =>
    until(() => servers().length === 1 && servers()[0]?.command.includes(words), `a server started by “${words}”`);

describe("importStrategy", () => {
    const bundled = path.join(extension().extensionPath, "bundled", "drygrad.py");

    after(async () => {
        await set("importStrategy", undefined);
        await set("interpreter", givenPython("TORCH"));
        await started(bundled);
    });

    it("useBundled starts the drygrad that the extension carries", async () => {
        await drygrad();
        await started(bundled);
    });

    it("fromEnvironment starts the drygrad of the environment", async () => {
        const python = givenPython("DRYGRAD");
        await set("interpreter", python);
        await set("importStrategy", "fromEnvironment");
        await started(`${python} -m drygrad`);
        await untilFound((await show("strategy.py", WRONG)).uri, "DG101");
    });

    it("fromEnvironment without drygrad there starts nothing, and is mended by the setting", async () => {
        const { statusItem } = await drygrad();
        await set("interpreter", givenPython("TORCH"));
        await until(() => servers().length === 0, "no server");
        await until(() => statusItem.text.lines[0] === "The server is not running.", "the status");
        assert.equal((await drygrad()).server.running?.state ?? State.Stopped, State.Stopped);
        await set("importStrategy", "useBundled");
        await started(bundled);
    });
});
