/** Elements of the page; text is always text, never markup. */

import { t } from "./l10n";

const SVG = "http://www.w3.org/2000/svg";
const LONG = 100;
const KEPT = 88;

export type Child = Node | string;

export function element<K extends keyof HTMLElementTagNameMap>(
    name: K,
    attributes: Record<string, string>,
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    return filled(document.createElement(name), attributes, children);
}

/** Return a sentence whose names stand between backticks as text and code. */
export function sentence(text: string): Child[] {
    return text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

export function svg(name: string, attributes: Record<string, string | number>, ...children: Child[]): SVGElement {
    return filled(document.createElementNS(SVG, name), attributes, children);
}

export function section(title: string, ...children: Child[]): HTMLElement {
    return element("section", { "aria-label": title }, element("h2", {}, title), ...children);
}

/** Return a button; its label, where it says more than its text, is for screen readers. */
export function button(text: string, attributes: Record<string, string>, pressed: () => void): HTMLButtonElement {
    const made = element("button", { type: "button", ...attributes }, text);
    made.addEventListener("click", pressed);
    return made;
}

/** Return a link to a line of code. */
export function lineButton(line: number, text: string, reveal: () => void): HTMLButtonElement {
    return button(text, { class: "line", "aria-label": t("Go to line {0}", line), title: t("Go to the line") }, reveal);
}

/** Return a text that is folded where it is long, with a button that shows the rest. */
export function folded(text: string): Child[] {
    if (text.length <= LONG) {
        return [text];
    }
    const space = text.lastIndexOf(" ", KEPT);
    const cut = space > KEPT / 2 ? space : KEPT;
    const rest = element("span", { hidden: "" }, text.slice(cut));
    const more = button("…", { class: "more", "aria-expanded": "false", "aria-label": t("Show all of it") }, () => {
        rest.hidden = !rest.hidden;
        more.setAttribute("aria-expanded", String(!rest.hidden));
        more.textContent = rest.hidden ? "…" : "‹";
    });
    more.addEventListener("click", (event) => event.stopPropagation());
    return [text.slice(0, cut), rest, more];
}

/** Return a list to choose from. */
export function choice(label: string, options: { value: string; text: string }[], value: string, chosen: (value: string) => void): HTMLElement {
    const made = element("select", { "aria-label": label }, ...options.map((one) => element("option", { value: one.value }, one.text)));
    made.value = value;
    made.addEventListener("change", () => chosen(made.value));
    return made;
}

/** The title of a column, and the class of its cells. */
export type Column = [string, string];

export function table(columns: Column[], rows: Child[][], kinds: string[] = []): HTMLElement {
    const cells = (row: Child[]): HTMLElement[] => row.map((cell, index) => element("td", { class: columns[index]?.[1] ?? "" }, cell));
    return element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ...columns.map(([title]) => element("th", { scope: "col" }, title)))),
        element("tbody", {}, ...rows.map((row, index) => element("tr", { class: kinds[index] ?? "" }, ...cells(row)))),
    );
}

/** Return a bar of a length, 0 to 100; what it shows stands beside it in words. */
export function bar(length: number, kind = ""): SVGElement {
    const made = svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
    made.append(svg("rect", { width: length, height: 8, rx: 1, class: kind }));
    return made;
}

function filled<T extends Element>(made: T, attributes: Record<string, string | number>, children: Child[]): T {
    for (const [name, value] of Object.entries(attributes)) {
        made.setAttribute(name, String(value));
    }
    made.append(...children);
    return made;
}
