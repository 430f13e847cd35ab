// What the reading of a text shows: squiggle, problem, hover, quick fix.
import { strict as assert } from "node:assert";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { until } from "./until.mjs";

const TRAIN = `import torch


def activation():
    x = torch.randn(4, 3, requires_grad=True)
    y = torch.exp(x)
    y.clamp_(max=10)
    y.sum().backward()
`;
// What the extension carries, and torch: which of it a Python has.
const INSTALLED = `
import importlib.util
names = "torch drygrad pygls lsprotocol attrs cattrs jedi parso pathspec rich".split()
print(*[name for name in names if importlib.util.find_spec(name)])
`;
const FIXED = TRAIN.replace("y.clamp_(max=10)", "y = y.clamp(max=10)");

const NEVER_OPENED = `import torch


def normalised(x: torch.Tensor):
    return torch.nn.functional.softmax(x)
`;

export async function statics(session) {
    const project = session.project("statics", { "train.py": TRAIN, "layers/losses.py": NEVER_OPENED });
    const onDisk = () => readFileSync(path.join(project, "train.py"), "utf8");
    let window;
    const machine = { "drygrad.interpreter": session.python };
    session.server.settings({ user: { "drygrad.inlineMessages": true }, machine });
    await session.step("open a folder", async () => (window = await session.window({ folder: project })));
    await session.step("open a file: the squiggle is there", async () => {
        const seen = () => window.warnings.first().waitFor({ state: "attached" });
        await session.timed("the file's text to its first squiggle, cold", () => window.openFile("train.py"), seen);
    });
    await session.step("the server's Python has nothing of it installed, the project's only torch", () => {
        const [own] = session.servers[0].args.split(" ");
        const installed = (python) => execFileSync(python, ["-I", "-c", INSTALLED], { encoding: "utf8" }).trim();
        assert.equal(installed(session.python), "torch");
        assert(!/drygrad|pygls|lsprotocol/.test(installed(own)), `${own} has ${installed(own)}`);
    });
    await session.step("the problems panel lists it", async () => {
        await window.showProblems();
        await window.untilProblem("DG101");
    });
    await session.step("hover says what it is about, and leads to the page", async () => {
        const box = await window.hover("y.clamp_");
        await until(async () => (await box.innerText()).includes("inplace-on-saved-tensor"), "the rule in the hover");
        assert(!(await box.innerText()).includes("Why is this bad?"));
        await session.shot(window, "hover");
        await box.locator("strong a", { hasText: "DG101" }).evaluate((link) => link.click());
        await window.page.locator(".tab", { hasText: "DG101" }).waitFor();
        await window.page.locator(".tab", { hasText: "train.py" }).click();
    });
    await session.step("the message stands at the end of the line, for this user wants it there", async () => {
        await until(async () => /clamp_.*overwrites/.test(await window.inlineText("y.clamp_")), () => window.inlineText("y.clamp_"));
        await session.shot(window, "inline");
    });
    await session.step("a quick fix changes the text", async () => {
        await window.applyFix(7, 8, "Replace `clamp_` with `clamp`");
        await window.line("y = y.clamp(max=10)").waitFor();
        await window.untilProblem("DG101", false);
        assert.equal(onDisk(), TRAIN, "nothing is saved yet");
    });
    await session.step("saving writes it to the disk", async () => {
        await window.save();
        await until(() => onDisk() === FIXED, onDisk);
    });
    await session.step("undo brings the finding back", async () => {
        await session.timed("a key to the squiggle", () => window.undo(), () => window.untilProblem("DG101"));
        await window.warnings.first().waitFor({ state: "attached" });
        await window.save();
    });
    await session.step("problems of files that are not open are listed where the setting wants it, and no longer where it does not", async () => {
        const everything = "softmax without dim";
        await window.untilProblem(everything, false);
        const inProject = (settings) => session.project("statics", { ".vscode/settings.json": JSON.stringify(settings) });
        inProject({ "drygrad.diagnosticMode": "workspace" });
        await window.untilProblem(everything);
        await window.untilProblem("DG101");
        await session.shot(window, "workspace");
        inProject({});
        await window.untilProblem(everything, false);
        await window.untilProblem("DG101");
    });
    await session.step("closing the window leaves no process", async () => {
        await session.close(window);
        await session.untilNoProcess();
        session.server.settings({ machine });
    });
}
