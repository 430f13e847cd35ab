// Two projects, each with its own environment: below one folder, and as the folders of a workspace.
import { writeFileSync } from "node:fs";
import path from "node:path";

const MODEL = `import sys

import torch


# dry-run: x=torch.randn(2, 3)
def double(x):
    print("run by", sys.prefix)
    return x * 2
`;
const NAMES = ["vision", "speech"];

export async function folders(session) {
    const files = NAMES.flatMap((name) => [[`${name}/${name}.py`, MODEL], [`${name}/pyproject.toml`, ""]]);
    const project = session.project("folders", { "pyproject.toml": "[tool.drygrad]\n", ...Object.fromEntries(files) });
    NAMES.forEach((name) => session.environment(path.join(project, name)));
    session.server.settings({ machine: {} });
    await session.step("two projects below one folder: each is run by its own environment", () =>
        ownEnvironments(session, project, { folder: project }),
    );
    const workspace = path.join(project, "both.code-workspace");
    writeFileSync(workspace, JSON.stringify({ folders: NAMES.map((name) => ({ path: name })) }));
    await session.step("two folders of a workspace: each is run by its own environment", () =>
        ownEnvironments(session, project, { workspace }),
    );
}

async function ownEnvironments(session, project, what) {
    const window = await session.window(what);
    for (const name of NAMES) {
        await window.openFile(`${name}.py`);
        await window.pressLens("def double", "Dry-run");
        await window.untilLens("def double", "✓ passed");
        await window.command("drygrad: Show Last Result");
        await window.panel.locator("h1", { hasText: name }).waitFor();
        await window.panel.locator("pre", { hasText: `run by ${path.join(project, name, ".venv")}` }).waitFor();
        await session.shot(window, `environment-${name}`);
        await window.closePanel();
    }
    await session.close(window);
    await session.untilNoProcess();
}
