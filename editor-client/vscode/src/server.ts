/** Starts, stops and restarts the language server; one restart at a time, at most one waiting. */

import * as path from "node:path";
import * as vscode from "vscode";
import {
    ConfigurationParams,
    DidChangeConfigurationNotification,
    LanguageClient,
    LanguageClientOptions,
    ServerOptions,
    State,
} from "vscode-languageclient/node";
import { log, tell } from "./log";
import { Environments } from "./python/environments";
import { NEUTRAL } from "./python/neutral";
import { hasServer, serverPython, workspacePython } from "./python/serverPython";
import { serverLevel, ServerLog } from "./serverLog";

const NO_PYTHON = vscode.l10n.t(
    "drygrad needs Python 3.10 or later to run, and found none. Install one, or set drygrad.serverPython to its path.",
);

const notInstalled = (python: string | null): string =>
    python
        ? vscode.l10n.t("{0} has no drygrad. Install it there with pip install drygrad, or set drygrad.importStrategy to useBundled.", python)
        : vscode.l10n.t("This workspace has no Python environment with drygrad. Create one, or set drygrad.importStrategy to useBundled.");

/** How drygrad is started, or why it cannot be. */
type Program = { command: string[] } | { missing: string };

export class Server implements vscode.Disposable {
    private client: LanguageClient | null = null;
    private startedAs: string | null = null;
    private restarting: Promise<void> | null = null;
    private again = false;
    private readonly serverLog = new ServerLog();
    private readonly started = new vscode.EventEmitter<LanguageClient>();
    private readonly states = new vscode.EventEmitter<State>();
    /** A client has started; notifications can be subscribed to. */
    readonly onStarted = this.started.event;
    readonly onState = this.states.event;

    constructor(
        private readonly context: vscode.ExtensionContext,
        private readonly environments: Environments,
    ) {}

    /** The running client; null while there is none. */
    get running(): LanguageClient | null {
        return this.client?.isRunning() ? this.client : null;
    }

    async restart(): Promise<void> {
        if (this.restarting) {
            this.again = true;
            return this.restarting;
        }
        this.restarting = this.startAnew();
        try {
            await this.restarting;
        } finally {
            this.restarting = null;
        }
        if (this.again) {
            this.again = false;
            await this.restart();
        }
    }

    /** Follow changed settings and interpreters: the server asks for them anew; one that is to be started in another way is. */
    async settingsChanged(): Promise<void> {
        await this.running?.sendNotification(DidChangeConfigurationNotification.type, { settings: null });
        if (startOf(await this.program()) !== this.startedAs) {
            await this.restart();
        }
    }

    private async startAnew(): Promise<void> {
        await this.stop();
        const program = await this.program();
        this.startedAs = startOf(program);
        if ("missing" in program) {
            this.states.fire(State.Stopped);
            void tell(program.missing);
            return;
        }
        const command = [...program.command, "server"];
        log.info(`starting ${command.join(" ")}`);
        this.client = new LanguageClient("drygrad", "drygrad", serverOptions(command), this.clientOptions());
        this.client.onDidChangeState((event) => this.states.fire(event.newState));
        try {
            await this.client.start();
        } catch (error) {
            log.error(`the server did not start: ${String(error)}`);
            void tell(vscode.l10n.t("drygrad could not start its server. The log says why."));
            return;
        }
        this.started.fire(this.client);
    }

    /** Return how drygrad is started: the one that the extension carries, or the one installed in the environment. */
    private async program(): Promise<Program> {
        const configuration = vscode.workspace.getConfiguration("drygrad");
        if (configuration.get("importStrategy") === "fromEnvironment" && vscode.workspace.isTrusted) {
            const own = await workspacePython(this.environments);
            return own && (await hasServer(own)) ? { command: [own, "-m", "drygrad"] } : { missing: notInstalled(own) };
        }
        const python = await serverPython(this.environments);
        const bundled = path.join(this.context.extensionPath, "bundled", "drygrad.py");
        return python ? { command: [python, bundled] } : { missing: NO_PYTHON };
    }

    /** Return the command line of drygrad, and the interpreter of the file that the user looks at; null if there is none. */
    async cliCommand(): Promise<{ command: string[]; interpreter: string | null } | null> {
        const program = await this.program();
        if ("missing" in program) {
            await tell(program.missing);
            return null;
        }
        const scope = vscode.window.activeTextEditor?.document.uri;
        return { command: program.command, interpreter: await this.environments.interpreter(scope) };
    }

    private clientOptions(): LanguageClientOptions {
        return {
            documentSelector: [
                { scheme: "file", language: "python" },
                { scheme: "untitled", language: "python" },
                { scheme: "vscode-notebook-cell", language: "python" },
            ],
            outputChannel: this.serverLog,
            initializationOptions: { drygrad: { trusted: vscode.workspace.isTrusted, diagnosticMode: diagnosticMode() } },
            synchronize: { fileEvents: [] },
            middleware: {
                provideHover: async (document, position, token, next) => withPages(await next(document, position, token)),
                provideCodeLenses: async (document, token, next) => withOwnCommands((await next(document, token)) ?? []),
                workspace: {
                    configuration: async (params, token, next) => this.withEnvironment(params, await next(params, token)),
                },
            },
        };
    }

    /** Add to the settings what only the editor knows: the interpreter of each scope, and whether it is trusted. */
    private async withEnvironment(params: ConfigurationParams, answer: unknown): Promise<unknown[]> {
        const settings = Array.isArray(answer) ? answer : [];
        return Promise.all(
            params.items.map(async (item, index) => {
                if (item.section !== "drygrad") {
                    return settings[index];
                }
                const scope = item.scopeUri ? vscode.Uri.parse(item.scopeUri) : vscode.workspace.workspaceFolders?.[0]?.uri;
                const given = forServer(settings[index]);
                return {
                    ...given,
                    logLevel: serverLevel(given["logLevel"]),
                    interpreter: await this.environments.interpreter(scope),
                    trusted: vscode.workspace.isTrusted,
                };
            }),
        );
    }

    private async stop(): Promise<void> {
        const client = this.client;
        this.client = null;
        if (client && client.state !== State.Stopped) {
            await client.stop().catch((error: unknown) => log.warn(`the server did not stop cleanly: ${String(error)}`));
        }
    }

    async dispose(): Promise<void> {
        await this.stop();
        this.serverLog.dispose();
    }
}

/** Which files are checked: a server learns it when it starts. */
function diagnosticMode(): string {
    return vscode.workspace.getConfiguration("drygrad").get("diagnosticMode", "openFilesOnly");
}

/** Return what a server is started with; another needs another server. */
function startOf(program: Program): string {
    return JSON.stringify([program, diagnosticMode()]);
}

function serverOptions([command, ...args]: string[]): ServerOptions {
    const executable = { command: command ?? "", args, options: NEUTRAL };
    return { run: executable, debug: executable };
}

/** Settings of the extension itself; the server does not know them. */
const OWN = new Set(["serverPython", "importStrategy", "trace", "inlineMessages"]);

function forServer(settings: unknown): Record<string, unknown> {
    const all = (settings ?? {}) as Record<string, unknown>;
    return Object.fromEntries(Object.entries(all).filter(([name, value]) => !OWN.has(name) && value !== null && value !== ""));
}

/** What this extension shows in a way of its own, where the server would have to make do with messages. */
const OWN_COMMANDS: Record<string, string> = {
    "drygrad.tellResult": "drygrad.showResult",
    "drygrad.tellForecast": "drygrad.showForecast",
    "drygrad.menu": "drygrad.more",
};

function withOwnCommands(lenses: vscode.CodeLens[]): vscode.CodeLens[] {
    for (const lens of lenses) {
        const own = lens.command && OWN_COMMANDS[lens.command.command];
        if (lens.command && own) {
            lens.command = { ...lens.command, command: own };
        }
    }
    return lenses;
}

const PAGE = /\(https:\/\/[^()\s]+\/docs\/rules\/(DG\d{3})\.md\)/g;

/** Let links to the pages of rules open the page beside the code. No other command can be called from a hover. */
function withPages(hover: vscode.Hover | null | undefined): vscode.Hover | null {
    for (const text of hover?.contents ?? []) {
        if (text instanceof vscode.MarkdownString) {
            text.value = text.value.replace(PAGE, (_, code: string) => `(command:drygrad.explainRule?${encodeURIComponent(JSON.stringify([code]))})`);
            text.isTrusted = { enabledCommands: ["drygrad.explainRule"] };
        }
    }
    return hover ?? null;
}
