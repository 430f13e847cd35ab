// A forecast: what lines hold, the warning where it does not fit, its page, and a change that is applied there.
import { strict as assert } from "node:assert";
import { until } from "./until.mjs";

const TRAIN = `import torch
from torch import nn

batch_size = 4096


def train():
    net = nn.Sequential(nn.Linear(1024, 16384), nn.Tanh(), nn.Linear(16384, 8)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        loss = net(torch.randn(batch_size, 1024, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
`;
const WITH_GPU = { user: { "drygrad.gpu": "1200MiB" } };
const TRACED_MS = 240_000;

export async function forecast(session) {
    const project = session.project("forecast", { "train.py": TRAIN });
    session.server.settings({ ...WITH_GPU, machine: { "drygrad.interpreter": session.python } });
    let window;
    await session.step("a forecast says what lines hold, and where it does not fit", async () => {
        window = await session.window({ folder: project });
        await window.openFile("train.py");
        await window.pressLens("def train", "Forecast");
        await window.untilLens("def train", "does not fit 1200MiB");
        await window.untilText("+80");
        await window.warnings.first().waitFor({ state: "attached" });
        await session.shot(window, "forecast-editor");
    });
    await session.step("its lens opens its page, with the plot and the tables", async () => {
        await window.pressLens("def train", "does not fit");
        await window.panel.locator("svg.drygrad-memory").getByText("room on").first().waitFor();
        assert.equal(await window.panel.locator("svg.drygrad-memory style").count(), 0, "the colours are the editor's");
        await window.panel.locator("tr", { hasText: "activations" }).first().waitFor();
        await window.panel.getByRole("tab", { name: "Tensors" }).click();
        await window.panel.locator("tr", { hasText: "backward of tanh" }).first().waitFor();
        await session.shot(window, "forecast-page");
    });
    await session.step("changes are traced, the greatest saving first", async () => {
        await window.panel.getByRole("button", { name: "What if …" }).click();
        await window.panel.getByRole("button", { name: "Apply: batches of 2048" }).waitFor({ timeout: TRACED_MS });
        const saved = await window.panel.locator("[role=tabpanel] tbody tr td:first-child").allInnerTexts();
        assert.ok(saved.length > 2, saved.join());
        await session.shot(window, "forecast-changes");
    });
    await session.step("a change is applied, and the text that it makes is forecast", async () => {
        await window.panel.getByRole("button", { name: "Apply: batches of 2048" }).click();
        await window.line("batch_size = 2048").waitFor();
        await window.untilLens("def train", ", fits 1200MiB");
        await window.panel.getByRole("status").filter({ hasText: ", fits" }).waitFor();
        await until(async () => (await window.warnings.count()) === 0, "no warning");
    });
    await session.close(window);
    session.server.settings({ machine: { "drygrad.interpreter": session.python } });
}
