/** A rule's page, in a preview. */

import * as vscode from "vscode";
import { ExecuteCommandRequest } from "vscode-languageclient/node";
import { execute } from "./execute";
import { Server } from "./server";

const SCHEME = "drygrad-rule";
const EXPLAIN = "drygrad.explain";

/** Serve the rules' pages as documents. */
export function registerRulePages(context: vscode.ExtensionContext, server: Server): void {
    const provider: vscode.TextDocumentContentProvider = {
        provideTextDocumentContent: async (uri) => {
            const code = uri.path.replace(/^\/|\.md$/g, "");
            return server.running?.sendRequest(ExecuteCommandRequest.type, {
                command: EXPLAIN,
                arguments: [{ code }],
            });
        },
    };
    context.subscriptions.push(vscode.workspace.registerTextDocumentContentProvider(SCHEME, provider));
}

/** Show the page of a rule: of the code that a link names, of the finding under the cursor, or of one that the user names. */
export async function explainRule(server: Server, given?: unknown): Promise<void> {
    const code = typeof given === "string" ? given : (codeUnderCursor() ?? (await ask()));
    if (code) {
        await explain(server, code);
    }
}

/** Show the page of a rule. */
export async function explain(server: Server, code: string): Promise<void> {
    if (await execute(server, EXPLAIN, { code })) {
        const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${code}.md` });
        await vscode.commands.executeCommand("markdown.showPreviewToSide", uri);
    }
}

function codeUnderCursor(): string | null {
    const editor = vscode.window.activeTextEditor;
    if (!editor) {
        return null;
    }
    const findings = vscode.languages
        .getDiagnostics(editor.document.uri)
        .filter((finding) => finding.source === "drygrad" && finding.range.contains(editor.selection.active));
    const code = findings[0]?.code;
    return typeof code === "object" ? String(code.value) : code === undefined ? null : String(code);
}

async function ask(): Promise<string | null> {
    const given = await vscode.window.showInputBox({
        title: vscode.l10n.t("Which rule?"),
        placeHolder: "DG101",
        validateInput: (text) => (/^DG\d{3}$/i.test(text) ? null : vscode.l10n.t("The code of a rule is DG and three digits: DG101")),
    });
    return given?.toUpperCase() ?? null;
}
