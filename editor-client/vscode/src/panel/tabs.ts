/** Tabs, as the ARIA practices have them: arrow keys choose, Tab goes on into the page. */

import { button, element } from "./dom";
import { t } from "./l10n";

export interface Tab {
    id: string;
    title: string;
    content: () => HTMLElement[];
    /** What is said where there is no content. */
    empty: string;
    /** How much there is of it. */
    count?: number;
}

export function tabs(all: Tab[], chosen: string, choose: (id: string) => void): HTMLElement[] {
    const current = all.find((tab) => tab.id === chosen) ?? all[0];
    if (!current) {
        return [];
    }
    const buttons = all.map((tab) => {
        const selected = tab === current;
        const attributes = {
            role: "tab",
            id: `tab-${tab.id}`,
            "aria-selected": String(selected),
            "aria-controls": "tabpanel",
            tabindex: selected ? "0" : "-1",
        };
        return button(tab.count ? `${tab.title} ${tab.count}` : tab.title, attributes, () => choose(tab.id));
    });
    const list = element("div", { role: "tablist", "aria-label": t("Parts of the result") }, ...buttons);
    list.addEventListener("keydown", (event) => {
        const place = all.indexOf(current);
        const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: all.length - 1 }[event.key];
        const target = next === undefined ? undefined : all[(next + all.length) % all.length];
        if (target) {
            event.preventDefault();
            choose(target.id);
            document.getElementById(`tab-${target.id}`)?.focus();
        }
    });
    const content = current.content();
    const panel = { role: "tabpanel", id: "tabpanel", "aria-labelledby": `tab-${current.id}`, tabindex: "0" };
    const shown = content.length ? content : [element("p", { class: "hint" }, current.empty)];
    return [list, element("div", panel, ...shown)];
}
