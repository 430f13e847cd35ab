/** Gradient norms, one bar for each parameter, on a logarithmic scale. */

import { RunReport } from "../protocol";
import { bar, element, section } from "./dom";
import { t } from "./l10n";

const DECADES = 8; // from 10⁻⁴ to 10⁴

export function gradients(report: RunReport): HTMLElement[] {
    const rows = (report.gradients ?? []).map((gradient) => {
        const norm = gradient.norm;
        const odd = norm === null || !Number.isFinite(norm);
        return element(
            "tr",
            {},
            element("th", { class: "name", scope: "row" }, gradient.name),
            element("td", { class: "amount" }, odd ? t("not finite") : norm === 0 ? "0" : norm.toPrecision(3)),
            element("td", { class: "bars" }, bar(odd ? 100 : length(norm), odd ? "odd" : "")),
        );
    });
    const hint = element("p", { class: "hint" }, t("Logarithmic scale from 10⁻⁴ to 10⁴."));
    return rows.length ? [section(t("Gradient norms"), element("table", { class: "ranked" }, element("tbody", {}, ...rows)), hint)] : [];
}

/** Return the length of a norm's bar, 0 to 100. */
function length(norm: number): number {
    const decades = Math.log10(norm) + DECADES / 2;
    return norm === 0 ? 0 : Math.max(1, Math.min(100, (100 * decades) / DECADES));
}
