// Nothing runs until the workspace is trusted.
import { strict as assert } from "node:assert";

const MODEL = `import torch


# dry-run: x=torch.randn(2, 3)
def double(x):
    y = torch.exp(x.requires_grad_())
    y.clamp_(max=10)
    return y.sum()
`;
const RUN = "drygrad: Dry-Run Function";

export async function trust(session) {
    const project = session.project("trust", { "model.py": MODEL });
    session.server.settings({ machine: { "drygrad.interpreter": session.python }, trusted: false });
    let window;
    await session.step("a workspace that is not trusted is checked, and has nothing that runs", async () => {
        window = await session.window({ folder: project });
        await window.openFile("model.py");
        await window.warnings.first().waitFor({ state: "attached" });
        assert.equal(await window.lens("def double"), "");
        assert(!(await window.offers(RUN)), "the palette offers no run");
        await session.shot(window, "untrusted");
    });
    await session.step("trusted, it has", async () => {
        await window.command("Workspaces: Manage Workspace Trust");
        await window.page.locator(".workspace-trust-editor a.monaco-button", { hasText: "Trust" }).first().click();
        await window.page.locator(".statusbar-item", { hasText: "Restricted Mode" }).waitFor({ state: "detached" });
        await window.openFile("model.py");
        await window.pressLens("def double", "Dry-run");
        await window.untilLens("def double", "✗");
        assert(await window.offers(RUN), "the palette offers the run");
    });
    await session.step("closing the window leaves no process", async () => {
        await session.close(window);
        await session.untilNoProcess();
    });
}
