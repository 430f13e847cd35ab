/** Elements of the page; text is always text, never markup. */

const SVG = "http://www.w3.org/2000/svg";

export function element(name: string, attributes: Record<string, string>, ...children: (Node | string)[]): HTMLElement {
    return filled(document.createElement(name), attributes, children);
}

/** Return a sentence whose names stand between backticks as text and code. */
export function sentence(text: string): (Node | string)[] {
    return text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

export function svg(name: string, attributes: Record<string, string | number>, ...children: (Node | string)[]): SVGElement {
    return filled(document.createElementNS(SVG, name), attributes, children);
}

export function section(title: string, ...children: Node[]): HTMLElement {
    return element("section", {}, element("h2", {}, title), ...children);
}

function filled<T extends Element>(made: T, attributes: Record<string, string | number>, children: (Node | string)[]): T {
    for (const [name, value] of Object.entries(attributes)) {
        made.setAttribute(name, String(value));
    }
    made.append(...children);
    return made;
}
