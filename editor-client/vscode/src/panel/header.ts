/** The head of the page: what was run, what came of it, what else there is to see, and what can be done. */

import { Results } from "../protocol";
import { button, Child, choice, element } from "./dom";
import { FromView } from "./messages";
import { clock, nameOf, outcomeWords } from "./words";
import { Shown } from "./overview";
import { t } from "./l10n";

const SIGNS: Record<string, string> = { good: "✓", bad: "✗", open: "◌" };

export function header(results: Results, shown: Shown, phase: string | null, choose: (at: number, number: number) => void): HTMLElement {
    const [mood, words] = outcomeWords(shown.report);
    const when = ` ${t("at {0}", clock(shown.entry.at))}`;
    const outcome = element("p", { class: `outcome ${mood}` }, `${SIGNS[mood] ?? ""} ${words}`, element("span", { class: "when" }, when));
    const now = element("p", { class: "phase-now" }, phase === null ? "" : `${phase} …`);
    const live = element("div", { role: "status", "aria-live": "polite" }, outcome, now);
    return element(
        "header",
        {},
        element("h1", {}, ...breakable(nameOf(results))),
        live,
        toolbar(shown, phase !== null),
        element("div", { class: "row" }, ...choices(results, shown, choose)),
    );
}

/** Return a name that breaks where its parts meet, before it breaks within one. */
function breakable(name: string): Child[] {
    return name.split(/(?<=::|[._])/).flatMap((part) => [part, element("wbr", {})]);
}

function toolbar({ acts, send }: Shown, running: boolean): HTMLElement {
    const disabled: Record<string, string> = acts ? {} : { disabled: "" };
    const again = running
        ? button(t("Cancel"), { class: "primary" }, () => send({ type: "cancel" }))
        : button(t("▶ Run again"), { class: "primary", ...disabled }, () => send({ type: "run" }));
    const devices = [["", t("Run on …")], ["cuda", t("a GPU")], ["sim", t("the simulated GPU")], ["cpu", t("the CPU")]] as const;
    const on = choice(t("Run on another device"), devices.map(([value, text]) => ({ value, text })), "", (device) => device && send({ type: "run", device }));
    const launch = button(t("Launch …"), { class: "secondary", title: t("Choose how the program is started, and run again"), ...disabled }, () =>
        send({ type: "launch" }),
    );
    on.toggleAttribute("disabled", !acts || running);
    return element("div", { role: "toolbar", class: "row", "aria-label": t("Actions") }, again, on, launch);
}

/** What else there is to look at: earlier runs, other inputs, other functions. */
function choices(results: Results, { entry, number, send }: Shown, choose: (at: number, number: number) => void): HTMLElement[] {
    const found: HTMLElement[] = [];
    const add = (label: string, options: { value: string; text: string }[], value: string, chosen: (value: string) => void): void => {
        if (options.length > 1) {
            found.push(element("label", {}, `${label} `, choice(label, options, value, chosen)));
        }
    };
    const runs = results.entries.map((one) => ({ value: String(one.at), text: `${clock(one.at)}  ${one.text}` }));
    add(t("Run"), runs, String(entry.at), (at) => choose(Number(at), 0));
    const inputs = entry.runs.map((_, index) => ({ value: String(index), text: t("{0} of {1}", index + 1, entry.runs.length) }));
    add(t("Inputs"), inputs, String(number), (index) => choose(entry.at, Number(index)));
    const keys = results.targets.map((target) => `${target.uri} ${target.qualname}`);
    const others = results.targets.map((target, index) => ({ value: keys[index] ?? "", text: `${nameOf(target)}  ${target.text}` }));
    add(t("Result of"), others, `${results.uri} ${results.qualname}`, (value) => {
        const target = results.targets[keys.indexOf(value)];
        const message: FromView | null = target ? { type: "select", target: { uri: target.uri, qualname: target.qualname } } : null;
        if (message) {
            send(message);
        }
    });
    return found;
}
