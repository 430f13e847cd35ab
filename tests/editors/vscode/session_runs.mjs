// What runs show: the fault under its line, shapes, the panel; how an edit, a save, a fix and a cancel change it.
import { until } from "./until.mjs";

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
const ENDLESS_LINE = 24;
const FAULT = "= 5 is outside [0, 5)";

export async function runs(session) {
    const project = session.project("runs", { "train.py": TRAIN });
    let window;
    await session.step("open a file in a new window", async () => {
        window = await session.window({ folder: project });
        await window.openFile("train.py");
        await window.showProblems();
    });
    await findings(session, window);
    await panel(session, window);
    await edits(session, window);
    await fixes(session, window);
    await cancelling(session, window);
    await logging(session, window);
    await session.step("closing the window ends the workers", async () => {
        await session.close(window);
        await session.untilNoProcess();
    });
}

async function findings(session, window) {
    await session.step("a lens runs the function: the fault is under its line", async () => {
        const press = () => window.pressLens("def loss_of", "Dry-run");
        await session.timed("the lens to the fault, the first run", press, () => window.untilProblem(FAULT));
        await window.errors.first().waitFor({ state: "attached" });
        await window.untilLens("def loss_of", `✗ labels[2] ${FAULT}`);
    });
    await session.step("shapes stand at the ends of the lines", async () => {
        await window.untilText("float32 [4, 5]");
        await session.shot(window, "dry-run");
    });
    await session.step("the status item tells device and outcome", async () => {
        await until(async () => (await window.statusItem.innerText()).includes("sim"), () => window.statusItem.innerText());
    });
}

async function panel(session, window) {
    const shows = async () => {
        await window.panel.locator("h1", { hasText: "loss_of" }).waitFor();
        await window.panel.locator(".finding", { hasText: FAULT }).waitFor();
    };
    await session.step("the lens of the outcome opens the panel", async () => {
        await window.pressLens("def loss_of", "labels[2]");
        await shows();
        await session.shot(window, "panel");
        await window.closePanel();
    });
    await session.step("so does the status item", async () => {
        await window.statusItem.click();
        await shows();
        await window.closePanel();
    });
    await session.step("so does the command; a line in it leads to the code", async () => {
        await window.command("drygrad: Show Last Result");
        await shows();
        await window.panel.locator("button.line").first().click();
        await window.page.locator(".statusbar-item", { hasText: "Ln 10, Col" }).waitFor();
        await window.closePanel();
    });
}

async function edits(session, window) {
    await session.step("an edit inside the function drops what was seen of it", async () => {
        await window.goTo(9, 27);
        await window.type(" * 1.0");
        await window.line("model(images) * 1.0").waitFor();
        await window.untilText("[4, 5]", false);
        await window.untilProblem(FAULT, false);
        await window.untilLens("def loss_of", FAULT, false);
    });
    await session.step("saving runs the pinned function again", async () => {
        await session.timed("the save to the new result", () => window.save(), () => window.untilProblem(FAULT));
        await window.untilLens("def loss_of", `✗ labels[2] ${FAULT}`);
        await window.untilText("[4, 5]");
    });
}

async function fixes(session, window) {
    const fault = "overwrites the output of exp, of shape [4, 3]"; // what only a run can tell
    await session.step("a static finding is confirmed by its run", async () => {
        await window.untilProblem("DG101");
        await window.untilProblem(fault, false);
        await window.pressLens("def activation", "Dry-run");
        await window.untilProblem(fault);
        await window.untilLens("def activation", "✗");
    });
    await session.step("its fix is verified", async () => {
        await window.offerFix(18, 8, "(verified)");
        await session.shot(window, "verified-fix");
    });
    await session.step("applied and saved, it leaves the function clean", async () => {
        await window.page.keyboard.press("Escape");
        await window.applyFix(18, 8, "(verified)");
        await window.line("y = y.clamp(max=10)").waitFor();
        await window.save();
        await window.untilLens("def activation", "✓ passed");
        await window.untilProblem("DG101", false);
    });
    await session.step("undo brings the confirmed finding back", async () => {
        await window.undo();
        await window.line("y.clamp_(max=10)").waitFor();
        await window.untilProblem(fault);
        await window.untilLens("def activation", "✗");
        await window.save();
    });
}

async function cancelling(session, window) {
    await session.step("an endless run is cancelled by its lens", async () => {
        await window.pressLens("def endless", "Dry-run");
        await window.pressLens("def endless", ": cancel");
        await window.untilLens("def endless", ": cancel", false);
    });
    await session.step("and by the command", async () => {
        await window.goTo(ENDLESS_LINE, 6);
        await window.command("drygrad: Dry-Run Function");
        await window.untilLens("def endless", "◌ running");
        await window.command("drygrad: Cancel Dry Runs");
        await window.untilLens("def endless", ": cancel", false);
    });
}

async function logging(session, window) {
    await session.step("the log tells of each run, with its level", async () => {
        await window.command("drygrad: Show Logs");
        await window.untilLogged(/\[info\] run-\d+ of activation: /);
        await session.shot(window, "log");
    });
    await session.step("at the channel's own level, it tells more", async () => {
        await window.commandThatAsks("Developer: Set Log Level");
        await window.pick("drygrad");
        await window.pick("Debug");
        await window.pressLens("def activation", "Dry-run");
        await window.untilLogged(/\[debug\] DG101 .*: verified/);
    });
}
