// One session with a real VS Code, step by step: node session.mjs INSTALLED VSIX PYTHON FOLDER
import { strict as assert } from "node:assert";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { CodeServer } from "./server.mjs";
import { until, Workbench } from "./workbench.mjs";

const [installed, vsix, python, folder] = process.argv.slice(2);
const project = path.join(folder, "project");
const shots = path.join(folder, "shots");

const TRAIN = `import torch
import torch.nn.functional as F
from torch import nn


# dry-run: images=torch.randn(4, 20), labels=torch.tensor([0, 1, 5, 2])
def loss_of(images, labels):
    model = nn.Linear(20, 5)
    scores = model(images)
    loss = F.cross_entropy(scores, labels)
    loss.backward()
    return loss


def activation():
    x = torch.randn(4, 3, requires_grad=True)
    y = torch.exp(x)
    y.clamp_(max=10)
    y.sum().backward()


# dry-run: steps=3
def endless(steps):
    while steps:
        steps = steps + 1
`;

let last = Date.now();
let workbench;

async function step(name, action) {
    await action();
    const now = Date.now();
    console.log(`${((now - last) / 1000).toFixed(1).padStart(6)} s  ${name}`);
    last = now;
}

const shot = (name) => workbench.page.screenshot({ path: path.join(shots, `${name}.png`) });

const lens = (text) => workbench.page.locator(".editor-instance .codelens-decoration", { hasText: text });

async function pressLens(text, index = 0) {
    await workbench.page.locator(".editor-instance .codelens-decoration a", { hasText: text }).nth(index).click();
}

function ours() {
    const all = execFileSync("ps", ["-eo", "pid,args"], { encoding: "utf8" }).split("\n");
    return all.filter((line) => line.includes(path.join(folder, "extensions")) && !line.includes("node"));
}

async function staticChecks() {
    await step("open a file: the squiggle is there", async () => {
        await workbench.openFile("train.py");
        await workbench.squiggles.first().waitFor({ state: "attached" });
    });
    await step("the problems panel lists it", async () => {
        const rows = await workbench.problems();
        assert(rows.some((row) => row.includes("DG101")), rows.join("\n"));
    });
    await shot("squiggle");
    await step("hover explains it", async () => {
        const box = await workbench.hover("y.clamp_");
        await until(async () => (await box.innerText()).includes("DG101"), "the hover names the rule");
    });
    await shot("hover");
}

async function dryRuns() {
    await step("a lens runs the function: the fault is under its line", async () => {
        await lens("Dry-run").first().waitFor();
        await pressLens("Dry-run", 0);
        await lens("labels[2] = 5").first().waitFor();
        await until(async () => (await workbench.problems()).some((row) => row.includes("is outside [0, 5)")), "the finding of the run");
    });
    await step("shapes stand at the ends of the lines", async () => {
        await until(async () => (await workbench.text()).includes("[4, 5]"), "the shape of the scores");
    });
    await shot("dry-run");
    await step("the panel shows the run", async () => {
        await workbench.command("drygrad: Show Last Result");
        await workbench.panel().locator("h1", { hasText: "loss_of" }).waitFor();
        await workbench.panel().locator(".finding", { hasText: "outside" }).waitFor();
        await shot("panel");
        await workbench.line("scores = model(images)").click();
    });
    await step("an edit inside the function drops what was seen of it", async () => {
        await workbench.goTo(9, 30);
        await workbench.page.keyboard.press("End");
        await workbench.page.keyboard.type(" * 1.0");
        await until(async () => !(await workbench.text()).includes("[4, 5]"), "the shapes are gone");
        await lens("outside [0, 5)").first().waitFor({ state: "detached" });
    });
    await step("saving runs the pinned function again", async () => {
        await workbench.save();
        await lens("labels[2] = 5").first().waitFor();
    });
    await step("a static finding is confirmed by its run", async () => {
        await pressLens("Dry-run", 1);
        await until(async () => (await workbench.problems()).some((row) => row.includes("DG101")), "the confirmed finding");
    });
    await step("the quick fix changes the text, and the file on disk", async () => {
        await workbench.line("y.clamp_(max=10)").click();
        const fixes = await workbench.quickFixes();
        await shot("quick-fix");
        await fixes.first().click();
        await workbench.line("y = y.clamp(max=10)").waitFor();
        await workbench.save();
        const onDisk = () => readFileSync(path.join(project, "train.py"), "utf8");
        await until(() => onDisk().includes("y = y.clamp(max=10)"), "the fix on disk");
        await until(async () => !(await workbench.problems()).some((row) => row.includes("DG101")), "the finding is gone");
    });
    await step("an endless run is cancelled", async () => {
        await workbench.goTo(24, 6);
        await workbench.command("drygrad: Dry-Run Function");
        await lens("running").first().waitFor();
        await workbench.command("drygrad: Cancel Dry Runs");
        await lens("running").first().waitFor({ state: "detached" });
    });
}

async function recovery() {
    await step("a killed server starts again", async () => {
        const before = ours().filter((line) => line.includes("drygrad.py server"));
        assert.equal(before.length, 1, ours().join("\n"));
        process.kill(Number(before[0].trim().split(/\s+/)[0]), "SIGKILL");
        await until(() => ours().some((line) => line.includes("drygrad.py server") && line !== before[0]), "a new server");
        await lens("Dry-run").last().waitFor();
    });
    await step("closing the window leaves no process", async () => {
        await workbench.close();
        await until(() => ours().length === 0, `gone: ${ours().join("\n")}`, 20_000);
    });
}

async function untrusted(server) {
    server.settings({ machine: { "drygrad.interpreter": python }, trusted: false });
    await step("an untrusted workspace is checked, and has no lens", async () => {
        workbench = await Workbench.open(installed, server.url, project);
        await workbench.openFile("train.py");
        await workbench.goTo(18, 8);
        await workbench.page.keyboard.type("y.clamp_(max=9); ");
        await workbench.squiggles.first().waitFor({ state: "attached" });
        assert.equal(await lens("Dry-run").count(), 0);
        await shot("untrusted");
        await workbench.close();
    });
}

async function main() {
    mkdirSync(project, { recursive: true });
    mkdirSync(shots, { recursive: true });
    writeFileSync(path.join(project, "train.py"), TRAIN);
    writeFileSync(path.join(project, "pyproject.toml"), "");
    const server = new CodeServer(installed, folder);
    server.settings({ machine: { "drygrad.interpreter": python } });
    await step("install the extension", async () => server.install(vsix));
    await step("start VS Code", async () => {
        await server.start();
        workbench = await Workbench.open(installed, server.url, project);
    });
    try {
        await staticChecks();
        await dryRuns();
        await recovery();
        await untrusted(server);
    } catch (error) {
        await shot("failed").catch(() => {});
        throw error;
    } finally {
        await workbench.close().catch(() => {});
        await server.stop();
    }
    console.log("done");
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
