// What a user does and sees in VS Code's window.
import { createRequire } from "node:module";
import path from "node:path";

const CHROMIUM = {
    executablePath: "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--force-color-profile=srgb"],
};

export class Workbench {
    static async open(installed, url, folder, { width = 1280, height = 800, scale = 1 } = {}) {
        const { chromium } = createRequire(path.join(installed, "driver/"))("playwright-core");
        const browser = await chromium.launch(CHROMIUM);
        const context = await browser.newContext({ viewport: { width, height }, deviceScaleFactor: scale });
        const page = await context.newPage();
        page.setDefaultTimeout(45_000);
        await page.goto(`${url}/?folder=${folder}`);
        await page.locator(".monaco-workbench .explorer-folders-view").waitFor();
        return new Workbench(browser, page);
    }

    constructor(browser, page) {
        this.browser = browser;
        this.page = page;
        this.squiggles = page.locator('.editor-instance [class*="squiggly-"]');
        this.lenses = page.locator(".editor-instance .codelens-decoration a, .editor-instance .codelens-decoration span");
    }

    line(text) {
        return this.page.locator(".editor-instance .view-line", { hasText: text });
    }

    // Everything in the editor, top to bottom, inlay hints included.
    async text() {
        return this.page.locator(".editor-instance .view-lines .view-line").evaluateAll((lines) =>
            lines
                .map((line) => [parseInt(line.style.top) || 0, line.textContent.replace(/\u00a0/g, " ")])
                .sort((one, other) => one[0] - other[0])
                .map(([, text]) => text)
                .join("\n"),
        );
    }

    async openFile(name) {
        await this.page.keyboard.press("Control+P");
        await this.page.locator(".quick-input-widget input[type=text]").fill(name);
        await this.page.locator(".quick-input-list .monaco-list-row", { hasText: name }).first().waitFor();
        await this.page.keyboard.press("Enter");
        await this.page.locator(".tab.active", { hasText: name }).waitFor();
        await this.page.locator(".editor-instance .view-lines .view-line").first().waitFor();
    }

    async command(title) {
        await this.page.keyboard.press("F1");
        await this.page.locator(".quick-input-widget input[type=text]").fill(`>${title}`);
        await this.page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first().waitFor();
        await this.page.keyboard.press("Enter");
    }

    async goTo(line, column = 1) {
        await this.page.keyboard.press("Control+G");
        await this.page.locator(".quick-input-widget input[type=text]").fill(`:${line}:${column}`);
        await this.page.keyboard.press("Enter");
    }

    async problems() {
        await this.page.keyboard.press("Control+Shift+M");
        const rows = this.page.locator(".markers-panel .monaco-list-row");
        await rows.first().waitFor();
        const texts = await rows.allInnerTexts();
        await this.page.keyboard.press("Control+Shift+M");
        return texts;
    }

    async quickFixes() {
        await this.page.keyboard.press("Control+.");
        const rows = this.page.locator(".action-widget .monaco-list-row.action");
        await rows.first().waitFor();
        return rows;
    }

    async save() {
        await this.page.keyboard.press("Control+S");
        await this.page.locator(".tab.active.dirty").waitFor({ state: "detached" });
    }

    async hover(text) {
        await this.line(text).first().hover({ position: { x: 60, y: 8 } });
        const box = this.page.locator(".monaco-hover:visible").first();
        await box.waitFor();
        return box;
    }

    toasts() {
        return this.page.locator(".notifications-toasts .notification-list-item").allInnerTexts();
    }

    statusItem() {
        return this.page.locator("#drygrad\\.drygrad\\.drygrad\\.status, .statusbar-item", { hasText: "drygrad" }).first();
    }

    // The page inside the result panel: a frame within a frame.
    panel() {
        return this.page.frameLocator("iframe.webview.ready").frameLocator("iframe#active-frame");
    }

    async close() {
        await this.browser.close();
    }
}

export async function until(condition, what, milliseconds = 45_000) {
    const end = Date.now() + milliseconds;
    for (;;) {
        const value = await condition();
        if (value) {
            return value;
        }
        if (Date.now() > end) {
            throw new Error(`waited in vain: ${what}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
}
