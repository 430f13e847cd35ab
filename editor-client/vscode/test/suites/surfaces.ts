/** What else of VS Code the extension takes part in: tasks, notebooks, the status bar. */

import { strict as assert } from "node:assert";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import { codeOf, drygrad, extension, findings, ran, root, set, show, until, untilFound } from "../support";
import { FAULT, RUNNABLE, WRONG } from "./programs";

describe("the problem matcher", () => {
    it("puts what the command line prints into the Problems panel", async () => {
        const file = vscode.Uri.joinPath(root(), "in a folder", "task.py");
        fs.mkdirSync(path.dirname(file.fsPath), { recursive: true });
        fs.writeFileSync(file.fsPath, WRONG);
        const { server } = await drygrad();
        const [python, ...rest] = (await server.cliCommand())?.command ?? [];
        assert(python);
        const execution = new vscode.ProcessExecution(python, [...rest, "check", "in a folder/task.py"], { cwd: root().fsPath });
        const task = new vscode.Task({ type: "process" }, vscode.TaskScope.Workspace, "check", "drygrad", execution, "$drygrad");
        const ended = new Promise<number | undefined>((resolve) => {
            vscode.tasks.onDidEndTaskProcess(({ exitCode }) => resolve(exitCode));
        });
        await vscode.tasks.executeTask(task);
        assert.equal(await ended, 1);
        const found = await until(() => vscode.languages.getDiagnostics(file)[0], "a problem");
        assert.equal(codeOf(found), "DG101");
        assert.equal(found.severity, vscode.DiagnosticSeverity.Warning);
        assert.deepEqual([found.range.start.line, found.range.start.character], [5, 4]);
    });
});

describe("notebooks", () => {
    it("show findings in their cells", async () => {
        const cells = WRONG.split("\n\n\n").map((source) => ({ cell_type: "code", source, metadata: {}, outputs: [], execution_count: null }));
        const file = vscode.Uri.joinPath(root(), "notebook.ipynb");
        const metadata = { language_info: { name: "python" } };
        fs.writeFileSync(file.fsPath, JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }));
        const notebook = await vscode.workspace.openNotebookDocument(file);
        await vscode.window.showNotebookDocument(notebook);
        const [imports, code] = notebook.getCells();
        assert(imports && code);
        await untilFound(code.document.uri, "DG101");
        assert.deepEqual(findings(imports.document.uri), []);
    });
});

describe("inline messages", () => {
    it("are the first sentences of the findings, where the setting wants them", async () => {
        const { inline } = await drygrad();
        const document = await show("inline.py", WRONG);
        await untilFound(document.uri, "DG101");
        assert.equal(inline.of(document).size, 0);
        await set("inlineMessages", true);
        const [shown] = inline.of(document).get(vscode.DiagnosticSeverity.Warning) ?? [];
        await set("inlineMessages", undefined);
        assert.equal(shown?.range.start.line, 5);
        assert.match(String(shown?.renderOptions?.after?.contentText), /^[^`;]{10,90}$/);
    });
});

describe("the lens menu and the panel", () => {
    it("know the function that they were opened for", async () => {
        const { panel } = await drygrad();
        const document = await show("apart.py", RUNNABLE, "return F");
        await ran("drygrad.dryRunFunction");
        await vscode.commands.executeCommand("drygrad.showResult", { uri: document.uri.toString(), qualname: "loss" });
        await until(() => panel.reports[0]?.target.endsWith("apart.py::loss"), "the result of loss");
    });
});

describe("the status item", () => {
    it("says what the last run came to, where, and with which Python", async () => {
        await show("status.py", RUNNABLE, "return F");
        await ran("drygrad.dryRunFunction");
        const { statusItem } = await drygrad();
        assert.match(statusItem.text.item, /^\$\(error\) drygrad · (sim|cuda|cpu)$/);
        await until(() => statusItem.text.lines[0] === "Worker: ready", "a worker at rest");
        const [, interpreter, last] = statusItem.text.lines;
        assert.match(interpreter ?? "", /^Interpreter: .*python.*, torch \d/);
        assert(last?.startsWith("Last run: ✗") && last.includes(FAULT), last);
    });
});

describe("the manifest", () => {
    it("has its texts from the file of names", () => {
        const { contributes } = extension().packageJSON;
        const titles = contributes.commands.map(({ title }: { title: string }) => title);
        assert(titles.includes("Dry-Run Function"), titles.join());
        assert(!JSON.stringify(contributes).includes('"%'));
    });

    it("contributes what the walkthrough and the menus name", () => {
        const { contributes } = extension().packageJSON;
        const commands = contributes.commands.map(({ command }: { command: string }) => command);
        const named = [...JSON.stringify([contributes.walkthroughs, contributes.menus]).matchAll(/command:?":?"?(drygrad\.\w+)|command:(drygrad\.\w+)/g)];
        assert(named.length > 0);
        assert.deepEqual(named.map((match) => match[1] ?? match[2]).filter((name) => !commands.includes(name)), []);
    });
});
