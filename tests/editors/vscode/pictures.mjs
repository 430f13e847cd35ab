// Takes the README's pictures in a real VS Code: node pictures.mjs INSTALLED VSIX PYTHON FOLDER IMAGES [PART...]
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { GPT } from "./forecast_program.mjs";
import { forecasts } from "./pictures_forecast.mjs";
import { play, Session } from "./session_context.mjs";
import { until } from "./until.mjs";

const [installed, vsix, python, folder, images, ...wanted] = process.argv.slice(2);
const ROOT = path.resolve(import.meta.dirname, "../../..");
const LIGHT = "Light 2026"; // what VS Code shows to who has chosen none
const DARK = "Dark 2026";
const PLAIN = {
    "breadcrumbs.enabled": false,
    "editor.fontFamily": "JetBrains Mono",
    "editor.fontLigatures": false,
    "editor.fontSize": 14,
    "editor.guides.indentation": false,
    "editor.hideCursorInOverviewRuler": true,
    "editor.hover.above": false,
    "editor.matchBrackets": "never",
    "editor.lightbulb.enabled": "off",
    "editor.occurrencesHighlight": "off",
    "editor.overviewRulerBorder": false,
    "editor.renderLineHighlight": "none",
    "editor.scrollbar.horizontal": "hidden",
    "editor.scrollbar.vertical": "hidden",
    "editor.selectionHighlight": false,
    "editor.stickyScroll.enabled": false,
    "window.commandCenter": false,
    "window.menuBarVisibility": "hidden",
    "workbench.activityBar.location": "hidden",
    "workbench.layoutControl.enabled": false,
    "workbench.statusBar.visible": false,
};
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts</dir>
  <alias binding="same"><family>sans-serif</family><prefer><family>Inter</family></prefer></alias>
  <alias binding="same"><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
  <alias binding="same"><family>monospace</family><prefer><family>JetBrains Mono</family></prefer></alias>
  <alias binding="same"><family>Liberation Mono</family><prefer><family>JetBrains Mono</family></prefer></alias>
</fontconfig>
`;

const READER = `import torch
import torch.nn.functional as F
from torch import nn


class Reader(nn.Module):
    def __init__(self, words=8000, width=128, classes=4):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

`;
const LOSS = `${READER}    # dry-run: self=Reader(), tokens=torch.randint(8000, (16, 64)), labels=torch.arange(16) % 5
    def loss(self, tokens, labels):
        vectors = self.embed(tokens)
        mixed = F.gelu(self.mix(vectors))
        scores = self.head(mixed.mean(dim=1))
        return F.cross_entropy(scores, labels)
`;
const ATTENTION = `import torch


def attend(query, key, value):
    scores = query @ key.transpose(1, 2)
    weights = torch.exp(scores - scores.amax(dim=2, keepdim=True))
    weights.clamp_(min=1e-6)
    return weights / weights.sum(dim=2, keepdim=True) @ value


def step():
    words = torch.randn(2, 5, 8, requires_grad=True)
    attend(words, words, words).sum().backward()
`;
const TRAIN = `${READER}    def forward(self, tokens):
        mixed = F.gelu(self.mix(self.embed(tokens)))
        return self.head(mixed.mean(dim=1))


# dry-run: tokens=torch.randint(8000, (16, 64)), labels=torch.arange(16) % 4
def training_step(tokens, labels, device="cuda"):
    model = Reader().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scores = torch.exp(model(tokens.to(device)))
    scores.clamp_(max=30)
    loss = F.cross_entropy(scores, labels.to(device))
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item(), norm.item()
`;
const TAGGER = `import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, width=64, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.mix = nn.MultiheadAttention(width, 4)
        self.head = nn.Linear(width, classes)

    # dry-run: self=Tagger(), images=torch.randn(8, 3, 32, 32)
    def forward(self, images):
        patches = self.patches(images).flatten(2).transpose(1, 2)
        mixed, _ = self.mix(patches, patches, patches)
        return self.head(mixed.mean(dim=1))
`;

// A window that shows nothing but the editor.
async function editor(session, file, size) {
    const window = await session.window({ folder: path.join(folder, "pictures") }, { scale: 2, ...size });
    await window.openFile(file);
    await window.command("View: Close Primary Side Bar");
    await window.page.locator(".part.sidebar").waitFor({ state: "hidden" });
    return window;
}

async function take(window, name) {
    await window.page.evaluate(() => document.fonts.ready);
    await window.page.locator(".part.editor").screenshot({ path: path.join(images, `${name}.png`), animations: "disabled" });
}

const settings = (theme) => ({
    user: { ...PLAIN, "workbench.colorTheme": theme },
    machine: { "drygrad.interpreter": python },
});

// Show the hover of a place, with room for it below.
async function showHover(window, line, column, room, expected) {
    await window.goTo(line, column);
    for (let lines = 0; lines < room; lines++) {
        await window.page.keyboard.press("Control+ArrowDown");
    }
    await window.warnings.first().waitFor({ state: "attached" });
    await window.page.keyboard.press("Control+K");
    await window.page.keyboard.press("Control+I");
    const shown = async () => (await window.page.locator(".monaco-hover:visible").allInnerTexts()).join();
    await until(async () => (await shown()).includes(expected) && !(await shown()).includes("Checking for"), "the hover");
}

async function hover(session) {
    await session.step("a squiggle with its hover", async () => {
        const window = await editor(session, "classifier.py", { width: 900, height: 520 });
        await window.untilLens("def train(", "Dry-run"); // a hover closes when lenses move its line
        await showHover(window, 27, 40, 6, "softmax-before");
        await take(window, "editor");
        await session.close(window);
    });
}

async function experiment(session) {
    await session.step("what an experiment has found", async () => {
        const window = await editor(session, "tagger.py", { width: 900, height: 500 });
        await window.pressLens("def forward(", "Dry-run");
        await window.untilLens("def forward(", "1 finding");
        await showHover(window, 15, 27, 5, "sample 3");
        await take(window, "experiment");
        await session.close(window);
    });
}

async function verifiedFix(session) {
    await session.step("a verified quick fix", async () => {
        const window = await editor(session, "attention.py", { width: 900, height: 380 });
        await window.pressLens("def step", "Dry-run");
        await window.untilLens("def step", "✗");
        await window.offerFix(7, 8, "(verified)");
        await take(window, "quick_fix");
        await session.close(window);
    });
}

async function lensAndShapes(session) {
    await session.step("a lens with shapes", async () => {
        const window = await editor(session, "loss.py", { width: 900, height: 430 });
        await window.pressLens("def loss(", "Dry-run");
        await window.untilLens("def loss(", "✗");
        await window.untilText("float32 [16, 64, 128]");
        await take(window, "dry_run");
        await session.close(window);
    });
}

const RELATIONS = readFileSync(path.join(ROOT, "docs/experiments.md"), "utf8").match(/^\| \[DG/gm).length;
const PANEL = { width: 1740, height: 560 };
const MARGIN = 14; // half of what is between two sections

// Make the window so high that the panel's page need not scroll.
async function wholePage(window) {
    const frame = window.page.locator("iframe.webview.ready");
    const wanted = await window.panel.locator("body").evaluate((body) => body.ownerDocument.documentElement.scrollHeight);
    const around = PANEL.height - (await frame.boundingBox()).height;
    await window.page.setViewportSize({ width: PANEL.width, height: Math.ceil(around + wanted) });
    await until(async () => (await frame.boundingBox()).height >= wanted, "the panel's height");
}

// The theme is read when a window opens.
const panel = (theme, name) => async (session) => {
    session.server.settings(settings(theme));
    await session.step(`the result panel, ${theme}`, async () => {
        const window = await editor(session, "train.py", PANEL);
        await window.pressLens("def training_step", "Dry-run");
        await window.untilLens("def training_step", "✗");
        await window.command("drygrad: Show Last Result");
        await window.panel.getByRole("button", { name: "verified" }).first().waitFor();
        await session.shot(window, `${name}-window`);
        await wholePage(window);
        const tab = window.page.locator(".tab", { hasText: "Dry run:" });
        const group = window.page.locator(".editor-group-container", { has: tab });
        await group.screenshot({ path: path.join(images, `${name}.png`), animations: "disabled" });
        await session.close(window);
    });
};

// What held, what is broken, and what was not tried and why: one section of the panel.
const relations = (theme, name) => async (session) => {
    session.server.settings(settings(theme));
    await session.step(`the relations in the panel, ${theme}`, async () => {
        const window = await editor(session, "tagger.py", PANEL);
        await window.pressLens("def forward(", "Dry-run");
        await window.untilLens("def forward(", "1 finding");
        await window.command("drygrad: Show Last Result");
        await window.panel.getByRole("tab", { name: "Experiments" }).click();
        const section = window.panel.locator("section", { hasText: "Checked properties" });
        await until(async () => (await section.locator("tbody tr").count()) === RELATIONS, "all relations");
        await wholePage(window);
        const { x, y, width, height } = await section.boundingBox();
        const clip = { x: x - MARGIN, y: y - MARGIN, width: width + 2 * MARGIN, height: height + 2 * MARGIN };
        await window.page.screenshot({ path: path.join(images, `${name}.png`), clip, animations: "disabled" });
        await session.close(window);
    });
};

mkdirSync(folder, { recursive: true });
process.env.FONTCONFIG_FILE = path.join(folder, "fonts.conf");
writeFileSync(process.env.FONTCONFIG_FILE, FONTS);
const session = new Session(installed, vsix, python, folder);
const classifier = readFileSync(path.join(ROOT, "examples/classifier.py"), "utf8");
session.project("pictures", { "classifier.py": classifier, "attention.py": ATTENTION, "loss.py": LOSS, "tagger.py": TAGGER, "train.py": TRAIN, "gpt.py": GPT });
const forecast = forecasts({ editor, take, settings, images });
const parts = {
    hover,
    verifiedFix,
    lensAndShapes,
    experiment,
    light: panel(LIGHT, "panel_light"),
    dark: panel(DARK, "panel_dark"),
    relationsLight: relations(LIGHT, "relations_light"),
    relationsDark: relations(DARK, "relations_dark"),
    forecast: forecast.inEditor(LIGHT),
    forecastLight: forecast.page(LIGHT, "forecast_light"),
    forecastDark: forecast.page(DARK, "forecast_dark"),
};
await play(session, wanted.length ? wanted.map((name) => parts[name]) : Object.values(parts), settings(LIGHT));
