// What a user does and sees in VS Code's window.
import { createRequire } from "node:module";
import path from "node:path";
import { PATIENCE_MS, until } from "./until.mjs";

const CHROMIUM = {
    executablePath: "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--force-color-profile=srgb"],
};
const OPENING_MS = 60_000;
const LISTING_MS = 10_000;
const LENS_LINES = 2; // a lens stands at most so many lines above its function

export class Workbench {
    // `what` is what the window shows: { folder } or { workspace }.
    static async open(installed, url, what, { width = 1280, height = 1000, scale = 1, picture } = {}) {
        const { chromium } = createRequire(path.join(installed, "driver/"))("playwright-core");
        const browser = await chromium.launch(CHROMIUM);
        const context = await browser.newContext({ viewport: { width, height }, deviceScaleFactor: scale });
        const page = await context.newPage();
        page.setDefaultTimeout(PATIENCE_MS);
        const workbench = new Workbench(browser, page);
        try {
            await until(() => workbench.#load(`${url}/?${new URLSearchParams(what)}`), "the window with its files");
        } catch (error) {
            await page.screenshot({ path: picture }).catch(() => {});
            await browser.close();
            throw error;
        }
        return workbench;
    }

    constructor(browser, page) {
        this.browser = browser;
        this.page = page;
        this.editor = page.locator(".editor-instance");
        this.errors = this.editor.locator(".squiggly-error");
        this.warnings = this.editor.locator(".squiggly-warning");
        this.input = page.locator(".quick-input-widget input[type=text]");
    }

    // Say whether the window opens. On a busy machine one may stay empty; it is loaded again, as a user would.
    async #load(url) {
        const loaded = this.page.goto(url, { timeout: OPENING_MS });
        const files = () => this.page.locator(".monaco-workbench .explorer-folders-view .monaco-list-row").first();
        return loaded.then(() => files().waitFor({ timeout: OPENING_MS })).then(() => true, () => false);
    }

    line(text) {
        return this.editor.locator(".view-line", { hasText: text }).first();
    }

    // What stands behind a line of code without being text: the content of its decorations.
    async inlineText(text) {
        const contents = await this.line(text).locator("span").evaluateAll((spans) => spans.map((one) => getComputedStyle(one, "::after").content));
        return contents.filter((content) => content !== "none" && content !== "normal").join(" ");
    }

    // Everything in the editor, top to bottom, inlay hints included.
    async text() {
        return this.editor.locator(".view-lines .view-line").evaluateAll((lines) =>
            lines
                .map((line) => [parseInt(line.style.top) || 0, line.textContent.replace(/\u00a0/g, " ")])
                .sort((one, other) => one[0] - other[0])
                .map(([, text]) => text)
                .join("\n"),
        );
    }

    async untilText(expected, wanted = true) {
        const shown = async () => (await this.text()).includes(expected) === wanted;
        await until(shown, async () => `the text ${wanted ? "with" : "without"} “${expected}”:\n${await this.text()}`);
    }

    async openFile(name) {
        await this.#choose("Control+P", name, name);
        await this.page.locator(".tab.active", { hasText: path.basename(name) }).waitFor();
        await this.editor.locator(".view-lines .view-line").first().waitFor();
    }

    async command(title) {
        await this.#choose("F1", `>${title}`, title);
    }

    // Say whether the palette offers a command.
    async offers(title) {
        await this.page.keyboard.press("F1");
        await this.input.fill(`>${title}`);
        const rows = this.page.locator(".quick-input-list .monaco-list-row");
        await rows.first().waitFor();
        const texts = await rows.allInnerTexts();
        await this.page.keyboard.press("Escape");
        await this.input.waitFor({ state: "hidden" });
        return texts.some((text) => text.includes(title));
    }

    // Choose from the quick input what begins its list. A list that lacks it may be older than what it should list.
    async #choose(key, filter, text, done = () => this.input.isHidden()) {
        const row = this.page.locator(".quick-input-list .monaco-list-row.focused", { hasText: text });
        await until(async () => {
            await this.page.keyboard.press(key);
            await this.input.fill(filter);
            const listed = await row.waitFor({ timeout: LISTING_MS }).then(() => true, () => false);
            await this.page.keyboard.press(listed ? "Enter" : "Escape");
            await until(listed ? done : () => this.input.isHidden(), `the end of “${filter}”`);
            return listed;
        }, `“${text}” in the list for “${filter}”`);
    }

    // Have a command that asks for more; `pick` answers.
    async commandThatAsks(title) {
        await this.#choose("F1", `>${title}`, title, async () => (await this.input.inputValue()) === "");
    }

    async pick(text) {
        await this.input.fill(text);
        await this.page.locator(".quick-input-list .monaco-list-row.focused", { hasText: text }).waitFor();
        await this.page.keyboard.press("Enter");
    }

    async untilLogged(expected) {
        const lines = this.page.locator(".output-view .view-line");
        const shown = async () => (await lines.allInnerTexts()).join("\n").replace(/\u00a0/g, " ");
        await until(async () => expected.test(await shown()), async () => `${expected} in the log:\n${await shown()}`);
    }

    async focusEditor() {
        await this.page.keyboard.press("Control+1");
        await this.page.locator(".editor-instance .monaco-editor.focused").first().waitFor();
    }

    async goTo(line, column = 1) {
        await this.focusEditor();
        await this.page.keyboard.press("Control+G");
        await this.input.fill(`:${line}:${column}`);
        await this.page.keyboard.press("Enter");
        await this.input.waitFor({ state: "hidden" });
        await this.editor.locator(".line-numbers.active-line-number", { hasText: new RegExp(`^${line}$`) }).waitFor();
    }

    async type(text) {
        await this.page.keyboard.type(text);
    }

    // Open the Problems panel, and leave it open.
    async showProblems() {
        const panel = this.page.locator(".markers-panel");
        if (!(await panel.isVisible())) {
            await this.page.keyboard.press("Control+Shift+M");
            await panel.waitFor();
            await this.focusEditor();
        }
    }

    async problems() {
        const rows = this.page.locator(".markers-panel .monaco-list-row:visible");
        return (await rows.allInnerTexts()).map((text) => text.replace(/\s+/g, " "));
    }

    async untilProblem(expected, wanted = true) {
        const listed = async () => (await this.problems()).some((row) => row.includes(expected)) === wanted;
        const rows = async () => (await this.problems()).join("\n");
        await until(listed, async () => `the problems ${wanted ? "with" : "without"} “${expected}”:\n${await rows()}`);
    }

    // What stands above a line of code: the text of its lenses.
    async lens(code) {
        const index = await this.#lensIndex(code);
        return index < 0 ? "" : (await this.#lenses.nth(index).innerText()).replace(/\u00a0/g, " ");
    }

    async untilLens(code, expected, wanted = true) {
        const shown = async () => (await this.lens(code).catch(() => null))?.includes(expected) === wanted;
        await until(shown, async () => `the lens of “${code}” ${wanted ? "with" : "without"} “${expected}”: ${await this.lens(code)}`);
    }

    // Press a lens. It may be drawn anew at any moment, and be elsewhere then.
    async pressLens(code, title) {
        const press = async () => {
            const index = await this.#lensIndex(code);
            const link = this.#lenses.nth(Math.max(index, 0)).locator("a", { hasText: title }).first();
            return index >= 0 && link.click({ timeout: 2_000 }).then(() => true, () => false);
        };
        await until(press, async () => `a lens “${title}” above “${code}”; there is: ${await this.lens(code)}`);
    }

    get #lenses() {
        return this.editor.locator(".codelens-decoration");
    }

    async #lensIndex(code) {
        const line = await this.line(code).boundingBox();
        if (!line) {
            return -1;
        }
        const tops = await this.#lenses.evaluateAll((lenses) => lenses.map((lens) => lens.getBoundingClientRect().top));
        return tops.findIndex((top) => top < line.y && line.y - top < LENS_LINES * line.height);
    }

    // Open the quick fixes of a place when there is one with such a title; findings that change close the menu.
    async offerFix(line, column, title) {
        await this.goTo(line, column);
        const menu = this.page.locator(".action-widget").first();
        await until(async () => {
            await this.page.keyboard.press("Control+.");
            const offered = await this.#fix(title).waitFor({ timeout: 2_000 }).then(() => true, () => false);
            if (!offered && (await menu.isVisible())) {
                await this.page.keyboard.press("Escape");
            }
            return offered;
        }, `a quick fix “${title}” at line ${line}`);
    }

    async applyFix(line, column, title) {
        const pressed = () => this.#fix(title).click({ timeout: 2_000 }).then(() => true, () => false);
        await until(async () => {
            await this.offerFix(line, column, title);
            return pressed();
        }, `pressing the quick fix “${title}”`);
    }

    #fix(title) {
        return this.page.locator(".action-widget .monaco-list-row.action", { hasText: title }).first();
    }

    async save() {
        await this.focusEditor();
        await this.page.keyboard.press("Control+S");
        await this.page.locator(".tab.dirty").waitFor({ state: "detached" });
    }

    async undo() {
        await this.focusEditor();
        await this.page.keyboard.press("Control+Z");
    }

    async hover(code, at = { x: 60, y: 8 }) {
        await this.line(code).hover({ position: at });
        const box = this.page.locator(".monaco-hover:visible").first();
        await box.waitFor();
        return box;
    }

    toasts() {
        return this.page.locator(".notifications-toasts .notification-list-item").allInnerTexts();
    }

    get statusItem() {
        return this.page.locator('.statusbar-item[id$="drygrad.status"]');
    }

    // The page inside the result panel: a frame within a frame.
    get panel() {
        return this.page.frameLocator("iframe.webview.ready").frameLocator("iframe#active-frame");
    }

    async closePanel() {
        const tab = this.page.locator(".tab", { hasText: "Dry run:" });
        await tab.locator(".tab-actions a.action-label").click();
        await tab.waitFor({ state: "detached" });
    }

    async close() {
        await this.browser.close();
    }
}
