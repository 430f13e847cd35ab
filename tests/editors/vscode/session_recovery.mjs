// A server that dies comes back.
import { strict as assert } from "node:assert";
import { until } from "./until.mjs";

const MODEL = `import torch


# dry-run: x=torch.randn(2, 3)
def double(x):
    y = x * 2
    return y
`;

export async function recovery(session) {
    const project = session.project("recovery", { "model.py": MODEL });
    let window;
    let before;
    await session.step("a run in a new window", async () => {
        window = await session.window({ folder: project });
        await window.openFile("model.py");
        await window.pressLens("def double", "Dry-run");
        await window.untilLens("def double", "✓ passed");
        await window.untilText("float32 [2, 3]");
    });
    await session.step("a killed server starts again, and its workers end", async () => {
        assert.equal(session.servers.length, 1, JSON.stringify(session.processes()));
        before = session.processes().map(({ pid }) => pid);
        process.kill(session.servers[0].pid, "SIGKILL");
        const old = () => session.processes().filter(({ pid }) => before.includes(pid));
        await until(() => session.servers.length === 1 && !old().length, () => JSON.stringify(session.processes(), null, 1));
    });
    await session.step("the new server runs the function", async () => {
        await window.untilText("[2, 3]", false);
        await window.pressLens("def double", "Dry-run");
        await window.untilText("float32 [2, 3]");
        await window.untilLens("def double", "✓ passed");
    });
    await session.step("closing the window leaves no process", async () => {
        await session.close(window);
        await session.untilNoProcess();
    });
}
