/** The page's texts in the user's language. Only the extension knows translations; it hands them over with the page. */

type Bundle = Record<string, string>;

const bundle: Bundle = typeof document === "undefined" ? {} : (JSON.parse(document.getElementById("report")?.dataset["l10n"] ?? "{}") as Bundle);

/** Return a text in the user's language, with values in the places of {0}, {1} … */
export function t(message: string, ...values: (string | number)[]): string {
    return (bundle[message] ?? message).replace(/\{(\d+)\}/g, (place, index: string) => String(values[Number(index)] ?? place));
}
