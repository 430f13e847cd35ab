/** The first sentence of each finding at the end of its line, for who wants it there. */

import * as vscode from "vscode";

const LONGEST = 90;

const COLOURS: [vscode.DiagnosticSeverity, string][] = [
    [vscode.DiagnosticSeverity.Error, "editorError.foreground"],
    [vscode.DiagnosticSeverity.Warning, "editorWarning.foreground"],
    [vscode.DiagnosticSeverity.Information, "editorInfo.foreground"],
    [vscode.DiagnosticSeverity.Hint, "descriptionForeground"],
];

export class InlineMessages implements vscode.Disposable {
    private readonly types = COLOURS.map(([severity, colour]) => ({ severity, type: decoration(colour) }));
    private readonly listeners = [
        vscode.languages.onDidChangeDiagnostics(() => this.show()),
        vscode.window.onDidChangeVisibleTextEditors(() => this.show()),
        vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("drygrad.inlineMessages") && this.show()),
    ];

    constructor() {
        this.show();
    }

    /** What stands at the ends of a document's lines, by severity; for tests. */
    of(document: vscode.TextDocument): Map<vscode.DiagnosticSeverity, vscode.DecorationOptions[]> {
        const wanted = vscode.workspace.getConfiguration("drygrad").get("inlineMessages") === true;
        const ours = wanted ? vscode.languages.getDiagnostics(document.uri).filter((found) => found.source === "drygrad") : [];
        const lines = new Set<number>();
        const found = new Map<vscode.DiagnosticSeverity, vscode.DecorationOptions[]>();
        for (const one of [...ours].sort((a, b) => a.severity - b.severity)) {
            const line = Math.min(one.range.start.line, document.lineCount - 1);
            if (!lines.has(line)) {
                lines.add(line);
                const contentText = firstSentence(one.message);
                const place = { range: document.lineAt(line).range, renderOptions: { after: { contentText } } };
                found.set(one.severity, [...(found.get(one.severity) ?? []), place]);
            }
        }
        return found;
    }

    private show(): void {
        for (const editor of vscode.window.visibleTextEditors) {
            const found = this.of(editor.document);
            this.types.forEach(({ severity, type }) => editor.setDecorations(type, found.get(severity) ?? []));
        }
    }

    dispose(): void {
        this.listeners.forEach((listener) => listener.dispose());
        this.types.forEach(({ type }) => type.dispose());
    }
}

function decoration(colour: string): vscode.TextEditorDecorationType {
    const after = { margin: "0 0 0 2em", color: new vscode.ThemeColor(colour), fontStyle: "italic" };
    return vscode.window.createTextEditorDecorationType({ after, rangeBehavior: vscode.DecorationRangeBehavior.ClosedOpen });
}

/** Return the first sentence of a message, cut where it is long. */
export function firstSentence(message: string): string {
    const [line = ""] = message.replaceAll("`", "").split("\n");
    const [sentence = ""] = line.split(/(?<=[.;:])\s/);
    const shown = sentence.replace(/[;:]$/, "");
    return shown.length > LONGEST ? `${shown.slice(0, LONGEST - 1)}…` : shown;
}
