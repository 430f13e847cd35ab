/** The HTML of a panel: one style sheet or more, one script, and the user's language. It loads nothing from the network. */

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";

export function page(webview: vscode.Webview, extension: vscode.Uri, title: string, styles: string[], script: string): string {
    const nonce = randomBytes(16).toString("base64");
    const policy = `default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`;
    const address = (...parts: string[]): string => webview.asWebviewUri(vscode.Uri.joinPath(extension, ...parts)).toString();
    return `<!doctype html>
<html lang="${vscode.env.language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${title}</title>
${styles.map((name) => `<link rel="stylesheet" href="${address("media", name)}">`).join("\n")}
</head>
<body>
<main id="report" data-l10n="${attribute(JSON.stringify(vscode.l10n.bundle ?? {}))}"></main>
<script nonce="${nonce}" src="${address("dist", script)}"></script>
</body>
</html>`;
}

const attribute = (text: string): string => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
