/** What the panel does in the editor: go to a line, apply a fix, run again, write inputs. */

import * as vscode from "vscode";
import { execute } from "../execute";
import { RunFinding, Target } from "../protocol";
import { Server } from "../server";

const OUTDATED = (): string => vscode.l10n.t("The text has changed since that run. Run again for fixes that fit it.");
const MANY = 100;

/** Show a line of a file in the first column. */
export async function reveal(uri: vscode.Uri, line: number): Promise<void> {
    const document = await vscode.workspace.openTextDocument(uri);
    const place = new vscode.Range(line - 1, 0, line - 1, 0);
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.One, selection: place });
}

/** Run a target, with a device or inputs for this run only. */
export async function dryRun(server: Server, target: Target, how: { device?: string; inputs?: string; launch?: string } = {}): Promise<void> {
    const { version } = await vscode.workspace.openTextDocument(vscode.Uri.parse(target.uri));
    const { device = null, inputs = null, launch = null } = how;
    const { uri, qualname } = target;
    const script = qualname === null;
    await execute(server, "drygrad.dryRun", { uri, qualname, version, position: null, device, inputs, launch, script });
}

export async function cancel(server: Server, running: { runId: string } | undefined): Promise<void> {
    await execute(server, "drygrad.cancel", { runId: running?.runId ?? null });
}

/** Write inputs above a target; say whether that was done. */
export async function writeInputs(server: Server, { uri, qualname }: Target, given: { inputs: string; number: number }): Promise<boolean> {
    await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
    const why = await execute(server, "drygrad.writeInputs", { uri, qualname, inputs: given.inputs, number: given.number });
    if (typeof why === "string") {
        void vscode.window.showWarningMessage(why);
    }
    return !why;
}

/** Apply a fix that a run offers, where its finding is still there; say whether that was done. */
export async function applyFix({ uri }: Target, finding: RunFinding, title: string): Promise<boolean> {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
    const present = vscode.languages.getDiagnostics(document.uri).filter((found) => codeOf(found) === finding.code);
    const isMeant = (found: vscode.Diagnostic): boolean => found.message.split("\n")[0] === finding.message;
    const found = present.find(isMeant) ?? present.find(({ range }) => range.start.line === finding.line - 1);
    const edit = found && (await fixOf(document, found, title));
    if (!edit || !(await vscode.workspace.applyEdit(edit))) {
        void vscode.window.showInformationMessage(OUTDATED());
        return false;
    }
    return true;
}

async function fixOf(document: vscode.TextDocument, found: vscode.Diagnostic, title: string): Promise<vscode.WorkspaceEdit | undefined> {
    const kind = vscode.CodeActionKind.QuickFix.value;
    const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
        "vscode.executeCodeActionProvider",
        document.uri,
        found.range,
        kind,
        MANY,
    );
    return actions.find((action) => action.title === title || action.title.startsWith(`${title} (`))?.edit;
}

function codeOf({ source, code }: vscode.Diagnostic): string | null {
    return source === "drygrad" ? String(typeof code === "object" ? code.value : code) : null;
}
