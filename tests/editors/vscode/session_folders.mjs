// Two projects, each with its own environment: below one folder that has one, too, and as the folders of a workspace.
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
    const top = { "pyproject.toml": "", "common.py": MODEL };
    const project = session.project("folders", { ...top, ...Object.fromEntries(files) });
    ["", ...NAMES].forEach((name) => session.environment(path.join(project, name)));
    session.server.settings({ machine: {} });
    const below = { "common.py": project, "vision.py": path.join(project, "vision"), "speech.py": path.join(project, "speech") };
    await session.step("a folder with three environments: each file is run by the nearest above it", () =>
        ownEnvironments(session, { folder: project }, below),
    );
    const workspace = path.join(project, "both.code-workspace");
    writeFileSync(workspace, JSON.stringify({ folders: NAMES.map((name) => ({ path: name })) }));
    await session.step("two folders of a workspace: each is run by its own environment", () =>
        ownEnvironments(session, { workspace }, Object.fromEntries(Object.entries(below).slice(1))),
    );
}

async function ownEnvironments(session, what, homes) {
    const window = await session.window(what);
    for (const [file, home] of Object.entries(homes)) {
        await window.openFile(file);
        await window.pressLens("def double", "Dry-run");
        await window.untilLens("def double", "✓ passed");
        await window.command("drygrad: Show Last Result");
        await window.panel.locator("h1", { hasText: file }).waitFor();
        await window.panel.getByRole("tab", { name: "Output" }).click();
        await window.panel.locator("pre", { hasText: `run by ${path.join(home, ".venv")}` }).waitFor();
        await session.shot(window, `environment-${file}`);
        await window.closePanel();
    }
    await session.close(window);
    await session.untilNoProcess();
}
