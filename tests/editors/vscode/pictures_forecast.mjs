// The pictures of a forecast: the editor with what each line holds, and its page.
import path from "node:path";

const PAGE = { width: 1760, height: 1040 };

export function forecasts({ editor, take, settings, images }) {
    const withGpu = (theme) => {
        const all = settings(theme);
        return { ...all, user: { ...all.user, "drygrad.gpu": "RTX 4070" } };
    };

    const inEditor = (theme) => async (session) => {
        session.server.settings(withGpu(theme));
        await session.step("what each line holds at the peak", async () => {
            const window = await editor(session, "gpt.py", { width: 1120, height: 1060 });
            await window.pressLens("def train", "Forecast");
            await window.untilLens("def train", "does not fit");
            await window.untilText("+4.50 GiB");
            await take(window, "forecast");
            await session.close(window);
        });
    };

    const page = (theme, name) => async (session) => {
        session.server.settings(withGpu(theme));
        await session.step(`the page of a forecast, ${theme}`, async () => {
            const window = await editor(session, "gpt.py", PAGE);
            await window.pressLens("def train", "Forecast");
            await window.untilLens("def train", "does not fit");
            await window.pressLens("def train", "does not fit");
            await window.panel.locator("svg.drygrad-memory").waitFor();
            await session.shot(window, `${name}-lines`);
            await window.panel.getByRole("button", { name: "What if …" }).click();
            await window.panel.getByRole("button", { name: "Apply: batches of 4 instead of 8" }).waitFor({ timeout: 240_000 });
            await grown(window);
            const tab = window.page.locator(".tab", { hasText: "Forecast:" });
            const group = window.page.locator(".editor-group-container", { has: tab });
            await group.screenshot({ path: path.join(images, `${name}.png`), animations: "disabled" });
            await session.close(window);
        });
    };

    // Make the window so high that the page need not scroll.
    async function grown(window) {
        const frame = window.page.locator("iframe.webview.ready");
        const wanted = await window.panel.locator("body").evaluate((body) => body.ownerDocument.documentElement.scrollHeight);
        const around = PAGE.height - (await frame.boundingBox()).height;
        await window.page.setViewportSize({ width: PAGE.width, height: Math.ceil(around + wanted) });
    }

    return { inEditor, page };
}
