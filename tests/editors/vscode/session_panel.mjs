// The result panel acts: one result at a time, fixes, inputs, the runs before, tabs by keyboard, a reload of the window.
import { strict as assert } from "node:assert";
import { until } from "./until.mjs";

const TRAIN = `import torch
import torch.nn.functional as F
from torch import nn


def loss_of(scores, labels):
    if labels.dim() == 3:
        labels = labels.squeeze(2)
        labels = labels.squeeze(1)
    long = scores + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0 + 0.0
    print("computing the loss")
    return F.cross_entropy(long, labels)


# dry-run: device="cuda"
def train(device):
    model = nn.Linear(20, 5).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    y = torch.exp(model(torch.randn(4, 20, device=device)))
    y.clamp_(max=10)
    loss = loss_of(y, torch.tensor([0, 1, 3, 2], device=device))
    loss.backward()
    optimizer.step()
    return loss


# dry-run: x=torch.randn(2, 3)
def double(x):
    return x * 2
`;
const FIX = "Replace clamp_ with clamp";

export async function panel(session) {
    const project = session.project("panel", { "train.py": TRAIN });
    let window;
    await session.step("run two functions", async () => {
        window = await session.window({ folder: project });
        await window.openFile("train.py");
        await window.pressLens("def train", "Dry-run");
        await window.untilLens("def train", "✗");
        await window.pressLens("def double", "Dry-run");
        await window.untilLens("def double", "✓ passed");
    });
    await oneResult(session, window);
    await acting(session, window);
    await keyboard(session, window);
    await reloading(session, window);
    await session.close(window);
}

const part = (window, name) => window.panel.getByRole("tab", { name });
const heading = (window, text) => window.panel.locator("h1", { hasText: text }).waitFor();
const outcome = (window, text) => window.panel.getByRole("status").filter({ hasText: text }).waitFor();

async function oneResult(session, window) {
    await session.step("the outcome above a function opens its result, and no other", async () => {
        await window.pressLens("def train", "✗");
        await heading(window, "train.py::train");
        assert.equal(await window.panel.locator("article").count(), 1);
        await outcome(window, "failed");
        await session.shot(window, "panel-failed");
    });
    await session.step("another one is chosen in the panel", async () => {
        const others = window.panel.getByLabel("Result of").last();
        const [option] = (await others.locator("option").allInnerTexts()).filter((text) => text.includes("double"));
        await others.selectOption({ label: option });
        await heading(window, "train.py::double");
        await window.pressLens("def train", "✗");
        await heading(window, "train.py::train");
    });
}

async function acting(session, window) {
    await session.step("a fix is applied in the panel, and the function runs again", async () => {
        await window.panel.getByRole("button", { name: `Apply: ${FIX}` }).first().click();
        await window.line("y = y.clamp(max=10)").waitFor();
        await outcome(window, "passed");
        await window.untilLens("def train", "✓ passed");
    });
    await session.step("the panel says what differs from the run before", async () => {
        const differences = window.panel.locator("section", { hasText: "Since the run at" });
        await differences.locator("tr", { hasText: "outcome" }).filter({ hasText: "failed" }).filter({ hasText: "passed" }).waitFor();
        await differences.locator("tr", { hasText: "findings" }).filter({ hasText: "DG101" }).waitFor();
        await differences.locator("tr", { hasText: "text" }).filter({ hasText: "1 line changed" }).waitFor();
        await session.shot(window, "panel-compared");
    });
    await session.step("the run before can still be looked at, and is not acted upon", async () => {
        const runs = window.panel.getByLabel("Run", { exact: true }).last();
        await runs.selectOption({ index: 1 });
        await outcome(window, "failed");
        assert.equal(await window.panel.getByRole("button", { name: `Apply: ${FIX}` }).count(), 0);
        await runs.selectOption({ index: 0 });
        await outcome(window, "passed");
    });
    await session.step("Run again runs it again", async () => {
        const runs = window.panel.getByLabel("Run", { exact: true }).last().locator("option");
        const before = await runs.count();
        await window.panel.getByRole("button", { name: "Run again" }).click();
        await until(async () => (await runs.count()) === before + 1, "another run in the list");
    });
    await session.step("other inputs are written above the function, and run", async () => {
        await window.panel.getByText("Change inputs").click();
        await window.panel.getByRole("textbox").fill('device="cpu"');
        await window.panel.getByRole("button", { name: "Write above the function and run" }).click();
        await window.line('# dry-run: device="cpu"').waitFor();
        await window.panel.locator("tr", { hasText: "'cpu'" }).first().waitFor();
    });
}

async function keyboard(session, window) {
    await session.step("arrow keys choose the tabs, and each has its part", async () => {
        await part(window, "Overview").focus();
        await window.page.keyboard.press("ArrowRight");
        await window.panel.locator('[role="tab"][aria-selected="true"]:focus', { hasText: "Shapes" }).waitFor();
        await window.panel.locator(".source").waitFor();
        await session.shot(window, "panel-shapes");
        for (const [name, words] of [
            ["Memory", "Held at the peak"],
            ["Gradients", "Gradient norms"],
            ["Experiments", "Checked properties"],
            ["Output", "computing the loss"],
        ]) {
            await window.page.keyboard.press("ArrowRight");
            await window.panel.getByRole("tabpanel", { name }).getByText(words).first().waitFor();
            await session.shot(window, `panel-${name.toLowerCase()}`);
        }
    });
    await session.step("lines that did not run are not listed, long ones are folded", async () => {
        await part(window, "Shapes").click();
        const lines = window.panel.locator(".source tr");
        await lines.filter({ hasText: "long = scores" }).waitFor();
        assert.equal(await lines.filter({ hasText: "labels.squeeze" }).count(), 0);
        assert.equal(await lines.filter({ hasText: "def double" }).count(), 0);
        const more = lines.filter({ hasText: "long = scores" }).getByRole("button", { name: "Show all of it" });
        assert.equal(await more.getAttribute("aria-expanded"), "false");
        await more.press("Enter");
        assert.equal(await more.getAttribute("aria-expanded"), "true");
    });
    await session.step("all that can be pressed has a name, and the keyboard reaches it", async () => {
        const buttons = await window.panel.locator("button, select, textarea, summary").all();
        assert(buttons.length > 10);
        for (const one of buttons) {
            const name = await one.evaluate((element) => element.getAttribute("aria-label") ?? element.textContent);
            assert(name?.trim(), await one.evaluate((element) => element.outerHTML));
            const reached = await one.evaluate((element) => element.tabIndex >= 0 || element.getAttribute("role") === "tab");
            assert(reached, name);
        }
    });
}

async function reloading(session, window) {
    await session.step("a reload of the window keeps the result, the tab, and the runs before", async () => {
        await part(window, "Gradients").click();
        await window.panel.getByRole("tabpanel", { name: "Gradients" }).getByText("Gradient norms").waitFor();
        await session.shot(window, "panel-before-reload");
        const loaded = window.page.waitForEvent("load");
        await window.command("Developer: Reload Window").catch(() => {}); // its list goes with the window
        await loaded;
        await heading(window, "train.py::train");
        await window.panel.getByRole("tabpanel", { name: "Gradients" }).getByText("Gradient norms").waitFor();
        assert((await window.panel.getByLabel("Run", { exact: true }).last().locator("option").count()) >= 3);
        await session.shot(window, "panel-reloaded");
    });
    await session.step("and runs on from there", async () => {
        const runs = window.panel.getByLabel("Run", { exact: true }).last().locator("option");
        const before = await runs.count();
        await window.panel.getByRole("button", { name: "Run again" }).click();
        await until(async () => (await runs.count()) === before + 1, "another run in the list");
    });
}
