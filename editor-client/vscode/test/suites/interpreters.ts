/** Which Python runs the user's code, and what follows when that is another one. */

import { strict as assert } from "node:assert";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import { RUN, RunAnswer } from "../../src/protocol";
import type { EnvironmentsStandIn } from "../extensions/environments/extension";
import type { PythonStandIn } from "../extensions/python/extension";
import { drygrad, givenPython, ran, root, servers, set, show, until, untilWatched } from "../support";
import { WHO } from "./programs";

/** Copy the environment that is given; return its Python. */
function environment(...folder: string[]): string {
    const copy = path.join(root().fsPath, ...folder);
    fs.cpSync(path.dirname(path.dirname(givenPython("TORCH"))), copy, { recursive: true, verbatimSymlinks: true });
    return path.join(copy, "bin", "python");
}

const remove = (name: string): void => fs.rmSync(path.join(root().fsPath, name), { recursive: true, force: true });

async function standIn<T>(id: string): Promise<T> {
    const extension = vscode.extensions.getExtension<T>(id);
    assert(extension, `${id} is installed`);
    return extension.activate();
}

/** Run a function; return the interpreter that ran it. */
async function ranBy(): Promise<string | null | undefined> {
    const { server } = await drygrad();
    const { runId, outcome } = await ran("drygrad.dryRunFunction");
    if (outcome === "cancelled") {
        return null; // by the change of the interpreter, which came meanwhile
    }
    const answer = await server.running?.sendRequest<RunAnswer>(RUN, { runId });
    return answer?.runs[0]?.interpreter;
}

describe("interpreters", () => {
    const folder = root();
    let python: PythonStandIn;
    let environments: EnvironmentsStandIn;
    let pythons: Record<"setting" | "environments" | "python" | "folder", string>;
    const now = async (): Promise<string | null> => (await drygrad()).environments.interpreter(folder);

    before(async () => {
        await set("interpreter", undefined);
        python = await standIn("ms-python.python");
        environments = await standIn("ms-python.vscode-python-envs");
        pythons = {
            setting: environment("pythons", "setting"),
            environments: environment("pythons", "environments"),
            python: environment("pythons", "python"),
            folder: environment(".venv"),
        };
    });

    afterEach(() => {
        environments.choose(folder, null);
        python.choose(null);
    });

    after(async () => {
        await set("interpreter", givenPython("TORCH"));
        remove(".venv");
    });

    it("come from the setting, the environments extension, the Python extension, the folder, in this order", async () => {
        await set("interpreter", pythons.setting);
        environments.choose(folder, pythons.environments);
        python.choose(pythons.python);
        assert.equal(await now(), pythons.setting);
        await set("interpreter", undefined);
        assert.equal(await now(), pythons.environments);
        environments.choose(folder, null);
        assert.equal(await now(), pythons.python);
        python.choose(null);
        assert.equal(await now(), pythons.folder);
        fs.renameSync(path.join(folder.fsPath, ".venv"), path.join(folder.fsPath, "venv"));
        assert.equal(await now(), path.join(folder.fsPath, "venv", "bin", "python"));
        fs.renameSync(path.join(folder.fsPath, "venv"), path.join(folder.fsPath, ".venv"));
    });

    it("of the folder are each for the files below them", async () => {
        const parts = ["one", "two", path.join("one", "deep")];
        const own = new Map(parts.slice(0, 2).map((part) => [part, environment(part, ".venv")]));
        for (const [part, expected] of [...own, [parts[2], own.get("one")], [".", pythons.folder]]) {
            await show(path.join(part ?? "", "who.py"), WHO, "return");
            assert.equal(await ranBy(), expected);
        }
        remove("one");
        remove("two");
    });

    it("of the environments extension may be of single files", async () => {
        const projects = ["first", "second"].map((name) => vscode.Uri.joinPath(folder, name));
        const [first, second] = projects;
        assert(first && second);
        environments.choose(first, pythons.environments);
        environments.choose(second, pythons.python);
        for (const [project, expected] of [[first, pythons.environments], [second, pythons.python]] as const) {
            await show(path.join(path.basename(project.fsPath), "who.py"), WHO, "return");
            assert.equal(await ranBy(), expected);
        }
        projects.forEach((project) => environments.choose(project, null));
    });

    it("that change are followed: another worker runs the code, the server stays", async () => {
        await show("who.py", WHO, "return");
        const before = servers();
        environments.choose(folder, pythons.environments);
        await until(async () => (await ranBy()) === pythons.environments, "a run by the environments extension's choice");
        environments.choose(folder, pythons.python);
        await until(async () => (await ranBy()) === pythons.python, "a run by its other choice");
        environments.choose(folder, null);
        python.choose(pythons.environments);
        await until(async () => (await ranBy()) === pythons.environments, "a run by the Python extension's choice");
        python.choose(null);
        await until(async () => (await ranBy()) === pythons.folder, "a run by the folder's own");
        assert.deepEqual(servers(), before);
    });

    it("in use are told of, not all that change", async () => {
        const { environments: known } = await drygrad();
        environments.choose(folder, pythons.environments);
        await now();
        await known.follow();
        let told = 0;
        const listener = known.changed(() => (told += 1));
        python.choose(pythons.python);
        python.choose(null);
        environments.choose(folder, pythons.python);
        await known.follow();
        listener.dispose();
        assert.equal(told, 1);
    });

    it("that come and go in the folder are followed", async () => {
        const follows = async (change: () => unknown, expected: string | null): Promise<void> => {
            const { environments: known } = await drygrad();
            await now();
            let told = false;
            const listener = known.changed(() => (told = true));
            change();
            await until(() => told, `word of a change to ${expected}`);
            listener.dispose();
            assert.equal(await now(), expected);
        };
        remove(".venv");
        await untilWatched();
        await follows(() => environment("venv"), path.join(folder.fsPath, "venv", "bin", "python"));
        await follows(() => remove("venv"), null);
    });
});
