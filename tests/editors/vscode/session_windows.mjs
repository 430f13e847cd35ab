// Two windows on one folder.
import { until } from "./until.mjs";

const MODEL = `import torch


# dry-run: x=torch.randn(2, 3)
def double(x):
    y = x * 2
    return y
`;

export async function windows(session) {
    const project = session.project("windows", { "model.py": MODEL });
    const both = [];
    await session.step("open two windows on one folder", async () => {
        for (let count = 0; count < 2; count++) {
            both.push(await session.window({ folder: project }));
        }
        await Promise.all(both.map((window) => window.openFile("model.py")));
        await until(() => session.servers.length === 2, () => JSON.stringify(session.servers));
    });
    await session.step("both run the function at the same time", async () => {
        await Promise.all(both.map((window) => window.pressLens("def double", "Dry-run")));
        await Promise.all(both.map((window) => window.untilText("float32 [2, 3]")));
        await Promise.all(both.map((window) => window.untilLens("def double", "✓ passed")));
    });
    const [first, second] = both;
    await session.step("what one saves, the other sees: what it saw of the old text is gone", async () => {
        await first.goTo(6, 14);
        await first.type(" + x.new_ones(4, 2, 3)");
        await first.save();
        await first.untilText("float32 [4, 2, 3]");
        await second.line("new_ones").waitFor();
        await second.untilText("float32 [2, 3]", false);
        await second.pressLens("def double", "Dry-run");
        await second.untilText("float32 [4, 2, 3]");
    });
    await session.step("closing one ends its server only", async () => {
        await session.close(first);
        await until(() => session.servers.length === 1, () => JSON.stringify(session.servers));
        await second.pressLens("def double", "Dry-run");
        await second.untilLens("def double", "✓ passed");
    });
    await session.step("closing the other leaves no process", async () => {
        await session.close(second);
        await session.untilNoProcess();
    });
}
